"""The command group: load a command's module when it is used, and turn errors into exit codes."""

from __future__ import annotations

import contextlib
import errno
import importlib
import importlib.util
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import IO, Any

import click
from click.shell_completion import CompletionItem

from perfrunner import __version__
from perfrunner.cli.output import LostOutput, abandon_stdout, hold_standard_streams, note
from perfrunner.errors import (
    DISK_BROKEN,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_OK,
    PerfrunnerError,
    StoreError,
    UsageError,
    is_full,
)

# Heading -> names of its commands, in the order of --help. Every command stands under one heading.
GROUPS = {
    "Measure": ("run", "ab", "aa", "bisect"),
    "Specs": ("init", "validate", "plan", "build"),
    "Results": (
        "report", "compare", "history", "explain", "profile", "list", "show", "export", "import", "site",
        "serve", "clean",
    ),
    "Hosts": ("doctor", "tune", "untune"),
    "Automation": ("nightly", "fleet"),
}  # fmt: skip
# Name -> (module, line in --help). The module has a click command called by its name (`import_`) or `command`.
# --help and completion load none of the modules: pydantic, numpy and fabric take more than a second.
COMMANDS = {
    "run": ("perfrunner.cli.run", "Build, check, measure and report the variants of a spec."),
    "ab": ("perfrunner.cli.ab", "Compare two revisions, or any servers, without a spec."),
    "aa": ("perfrunner.cli.ab", "Measure the noise floor of the hosts (A/A test)."),
    "bisect": ("perfrunner.cli.bisect", "Find the commit that changed a metric."),
    "init": ("perfrunner.cli.init", "Write a first spec and the reference specs."),
    "validate": ("perfrunner.cli.init", "Check specs without running anything."),
    "plan": ("perfrunner.cli.plan", "Show the trials of a run and its duration."),
    "build": ("perfrunner.cli.build", "Build and check every variant."),
    "report": ("perfrunner.cli.report", "Report an experiment as a table, page or document."),
    "compare": ("perfrunner.cli.report", "Compare two variants, experiments, days or builds."),
    "history": (
        "perfrunner.cli.show",
        "Show the primary metrics over all runs of a spec.",
    ),
    "explain": ("perfrunner.cli.explain", "Show which functions' CPU time changed."),
    "profile": ("perfrunner.cli.explain", "Print the CPU profiles of an experiment."),
    "list": ("perfrunner.cli.show", "List the stored experiments."),
    "show": ("perfrunner.cli.show", "Show an experiment, its builds and its trials."),
    "export": ("perfrunner.cli.export", "Export the measured values, or a run as an archive."),
    "import": ("perfrunner.cli.export", "Add a run from an archive to the stored experiments."),
    "site": ("perfrunner.cli.site", "Write a static site of all stored experiments."),
    "serve": ("perfrunner.cli.site", "Follow a running experiment in a browser."),
    "clean": ("perfrunner.cli.clean", "Remove builds, leftovers on hosts, or results."),
    "doctor": (
        "perfrunner.cli.hosts",
        "Check the hosts for missing tools, noise and bad settings.",
    ),
    "tune": ("perfrunner.cli.hosts", "Tune the hosts for quiet measurements."),
    "untune": ("perfrunner.cli.hosts", "Restore the settings that tune changed."),
    "nightly": ("perfrunner.cli.nightly", "Run specs every night and print what changed."),
    "fleet": ("perfrunner.cli.fleet", "Queue runs for many groups of hosts."),
}

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
_LIMITS = (errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
_NO_THREAD = "can't start new thread"
_WRONG_PATH = (errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP)


class Failed(click.ClickException):
    """A PerfrunnerError that ends the command: `error: ...`, then `hint: ...`, on stderr."""

    def __init__(self, error: PerfrunnerError) -> None:
        super().__init__(error.message)
        self.exit_code = error.exit_code  # type: ignore[misc]  # click reads it from the instance
        self.hint = error.hint

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message and the hint; each line of a message gets its `error:` label."""
        label = "error:" if os.environ.get("NO_COLOR") else click.style("error:", fg="red")
        for line in self.message.splitlines() or [""]:
            click.echo(f"{label} {line}", file=file, err=True)
        if self.hint:
            click.echo(f"hint: {self.hint}", file=file, err=True)


class LazyGroup(click.Group):
    """A group that takes its commands from COMMANDS and suggests the nearest name for a typo."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the installed commands."""
        del ctx
        return [name for name, (module, _) in COMMANDS.items() if importlib.util.find_spec(module)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command; None for an unknown name."""
        if cmd_name not in self.list_commands(ctx):
            return None
        path, _ = COMMANDS[cmd_name]
        module = importlib.import_module(path)
        for attribute in (cmd_name, f"{cmd_name}_", "command"):
            command = getattr(module, attribute, None)
            if isinstance(command, click.Command):
                return command
        raise TypeError(f"{path} has no click command")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one section for each heading of GROUPS, without loading any command."""
        installed = set(self.list_commands(ctx))
        width = max(map(len, installed), default=0)
        for heading, names in GROUPS.items():
            rows = [(name.ljust(width), COMMANDS[name][1]) for name in names if name in installed]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Propose the names of commands, then the options of the group."""
        matching = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        items = [CompletionItem(name, help=COMMANDS[name][1]) for name in matching]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command as click does, with a suggestion for an unknown name."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and self.get_command(ctx, name) is None:
            from perfrunner.spec.suggest import nearest  # imports pydantic, which is slow

            near = nearest(name, self.list_commands(ctx))
            text = (
                f"Did you mean {near}?" if near else f"Known: {', '.join(self.list_commands(ctx))}."
            )
            ctx.fail(f"No such command {name!r}. {text}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Turn every error into an exit code.

        A PerfrunnerError ends with a message, a defect with its traceback, Ctrl-C with 130.
        """
        try:
            return self._invoke(ctx)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except Exception as error:
            if isinstance(error, FileNotFoundError) and _is_nowhere():
                raise Failed(
                    UsageError("the current directory does not exist any more", "cd to another one")
                ) from error
            if explained := _explain(error):
                raise Failed(explained) from error
            note(traceback.format_exc().rstrip())
            ctx.exit(EXIT_FAILED)

    def _main_shell_completion(self, *words: Any, **options: Any) -> None:
        """Print the script or the proposals of a shell completion; exit code 1 would be a verdict's."""
        try:
            super()._main_shell_completion(*words, **options)
        except OSError as error:
            abandon_stdout()
            note(f"error: cannot write the completion: {error.strerror}")
            sys.exit(EXIT_FAILED)

    def make_context(self, *words: Any, **options: Any) -> click.Context:
        """Parse the command line; options such as --help print here."""
        hold_standard_streams()
        # Else numpy starts a thread for each CPU, which are of no use here, and a limit of processes ends the command.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        with _lost_output_handled():
            return super().make_context(*words, **options)

    def _invoke(self, ctx: click.Context) -> Any:
        try:
            with _signals_as_ctrl_c(), _lost_output_handled():
                value = super().invoke(ctx)
                sys.stdout.flush()
        except PerfrunnerError as error:
            raise Failed(error) from error
        except (KeyboardInterrupt, click.Abort):
            note("interrupted")
            ctx.exit(EXIT_INTERRUPTED)
        else:
            return value


def _explain(error: Exception) -> PerfrunnerError | None:
    """Return the message for what the user's files, disks and limits cause; None for what may be a defect."""
    if isinstance(error, MemoryError) or _NO_THREAD in str(error):
        return _limited(str(error) or "out of memory")
    if not isinstance(error, OSError):
        return None
    place = None if error.filename is None else os.fsdecode(error.filename)
    if isinstance(error, PermissionError) and place is not None:
        # Even the question whether a file exists fails in the home of another user (`su`, `sudo -u`).
        return UsageError(
            f"{place}: permission denied",
            "use another directory, or set HOME to that of this user",
        )
    if error.errno == errno.ENOENT and str(error.strerror).startswith("No usable temporary"):
        return StoreError(str(error.strerror), "set TMPDIR to a directory with free space")
    if error.errno in _LIMITS:
        return _limited(str(error.strerror))
    if error.errno in _NO_LOCKS and place is not None:
        return StoreError(
            f"{place} cannot be locked: {error.strerror}", "use a directory on a local disk"
        )
    text = f"{place or 'a file cannot be written'}: {error.strerror}"
    if error.errno in _WRONG_PATH:
        return UsageError(text, "name another file or directory")
    if is_full(error):
        return StoreError(text, "free some space for the results, the build cache and TMPDIR")
    if error.errno in DISK_BROKEN:
        return StoreError(text, "make it writable, or use another directory")
    return None


def _limited(text: str) -> PerfrunnerError:
    return PerfrunnerError(
        f"this machine, or a limit of this user: {text}",
        "raise the limits of processes, open files and memory (ulimit -a), or end other programs",
    )


def _is_nowhere() -> bool:
    """Tell whether the current directory was removed."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


@contextlib.contextmanager
def _signals_as_ctrl_c() -> Iterator[None]:
    """End on SIGTERM and SIGHUP as on Ctrl-C: stop child processes, and remove temporary files."""

    def interrupt(signum: int, frame: FrameType | None) -> None:
        del signum, frame
        raise KeyboardInterrupt

    # Only the main thread may, and nohup ignores SIGHUP.
    may = threading.current_thread() is threading.main_thread()
    both = (signal.SIGTERM, signal.SIGHUP) if may else ()
    mine = [signum for signum in both if signal.getsignal(signum) is signal.SIG_DFL]
    for signum in mine:
        signal.signal(signum, interrupt)
    try:
        yield
    finally:
        for signum in mine:
            signal.signal(signum, signal.SIG_DFL)


@contextlib.contextmanager
def _lost_output_handled() -> Iterator[None]:
    """End with 0 if the reader of stdout has gone, and with an error if stdout cannot be written otherwise."""
    try:
        yield
    except BrokenPipeError:
        abandon_stdout()
        raise click.exceptions.Exit(EXIT_OK) from None
    except LostOutput as error:
        abandon_stdout()
        text = f"cannot write the result to stdout: {error.strerror}"
        raise Failed(
            StoreError(
                text, "free some space, or write it to another file; nothing that is stored is lost"
            )
        ) from error


def _print_man_page(ctx: click.Context) -> None:
    click.echo(man_page(main), nl=False)
    ctx.exit()


@click.command(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="\b\nExamples:"
    "\n  perfrunner init specs                 write a first spec"
    "\n  perfrunner run specs/first.yaml       measure and report it"
    "\n  perfrunner ab main my-branch          compare two revisions of the engine"
    "\n\n\b\nExit codes: 0 done, 1 a verdict that --fail-on names, 2 usage or spec error, 3 the run failed,"
    "\n75 the results database is unavailable, 130 interrupted."
    '\n\n\b\nShell completion: eval "$(_PERFRUNNER_COMPLETE=bash_source perfrunner)"',
)
@click.version_option(__version__, prog_name="perfrunner")
@click.option(
    "--man",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda ctx, _, wanted: _print_man_page(ctx) if wanted else None,
    help="Print the man page and exit.",
)
def main() -> None:
    """Compare variants of a key-value server: build them, run them interleaved, report the differences."""


def man_page(group: click.Group) -> str:
    """Return the page in roff, with a section for each heading of `--help`."""
    root = click.Context(group, info_name="perfrunner", **group.context_settings)
    lines = [
        f'.TH PERFRUNNER 1 "" "perfrunner {_roff(__version__)}" "User Commands"',
        ".SH NAME",
        f"perfrunner \\- {_roff(_summary(group))}",
        ".SH SYNOPSIS",
        ".B perfrunner",
        "[OPTIONS] COMMAND [ARGS]...",
        ".SH DESCRIPTION",
        *_paragraphs(group.help or ""),
        *_options(group, root),
        *_paragraphs(group.epilog or ""),
    ]
    for heading, names in GROUPS.items():
        lines.append(f'.SH "{heading.upper()}"')
        for name in names:
            command = group.get_command(root, name)
            if command is not None:
                lines += _command(command, name, root)
    return "\n".join(lines) + "\n"


def _command(command: click.Command, name: str, parent: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent)
    usage = " ".join(command.collect_usage_pieces(context))
    yield f'.SS "{_roff(f"{context.command_path} {usage}", quoted=True)}"'
    yield from _paragraphs(command.help or "")
    yield from _options(command, context)
    yield from _paragraphs(command.epilog or "")
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            subcommand = command.get_command(context, child)
            if subcommand is not None:
                yield from _command(subcommand, child, context)


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if isinstance(parameter, click.Option) and record is not None:
            names, text = record
            yield ".TP"
            yield f".B {_roff(names)}"
            yield _roff(" ".join(text.split()))


def _paragraphs(text: str) -> Iterator[str]:
    """Yield paragraphs. Those that click must not wrap, such as examples, keep their lines."""
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        lines = paragraph.splitlines()
        yield ".PP"
        if lines and lines[0].strip() == "\b":
            yield ".nf"
            yield from (_roff(line) for line in lines[1:])
            yield ".fi"
        else:
            yield _roff(" ".join(paragraph.split()))


def _summary(group: click.Group) -> str:
    return (group.help or "").strip().partition(":")[0].lower()


def _roff(text: str, *, quoted: bool = False) -> str:
    """Escape text so that no word of it is a request or a sequence of roff."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga").replace("^", "\\(ha")
    text = text.replace("~", "\\(ti").replace("'", "\\(aq")
    text = "".join(c if c.isascii() else f"\\[u{ord(c):04X}]" for c in text)
    if quoted:
        return text.replace('"', "\\(dq")
    return f"\\&{text}" if text.startswith((".", "'")) else text
