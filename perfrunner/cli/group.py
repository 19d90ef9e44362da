"""The command group: loads a command's module when it is asked for, and turns errors into exit codes."""

from __future__ import annotations

import errno
import importlib
import importlib.util
import os
import sys
import traceback
from typing import IO, Any

import click
from click.shell_completion import CompletionItem

from perfrunner import __version__
from perfrunner.cli.output import abandon_stdout, hold_standard_streams, note
from perfrunner.errors import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_OK,
    PerfrunnerError,
    StoreError,
)

# Name -> (module with a click command called `command` or by its name, its line in --help), in the order of --help.
# Nothing is loaded for --help and completion: pydantic, numpy and fabric together cost more than a second.
COMMANDS = {
    "run": ("perfrunner.cli.run", "Build, prove, measure and report a spec."),
    "ab": ("perfrunner.cli.ab", "Compare two revisions, without a spec."),
    "build": ("perfrunner.cli.build", "Build and prove every variant."),
    "validate": ("perfrunner.cli.validate", "Check specs without running anything."),
    "plan": ("perfrunner.cli.plan", "What would run, in order, and for how long."),
    "doctor": ("perfrunner.cli.doctor", "What is missing, noisy or mis-set on the hosts."),
    "report": ("perfrunner.cli.report", "Report an experiment: a table, a page, a document."),
    "bisect": ("perfrunner.cli.bisect", "Find the commit that changed a metric."),
    "compare": ("perfrunner.cli.compare", "Two variants, experiments, days or builds."),
    "history": (
        "perfrunner.cli.history",
        "The primary metrics over all runs of a spec, with changes of level.",
    ),
    "nightly": ("perfrunner.cli.nightly", "Run specs every night; print only what changed."),
    "fleet": ("perfrunner.cli.fleet", "A queue of runs for many groups of hosts."),
    "aa": ("perfrunner.cli.aa", "Measure the noise floor of these hosts."),
    "init": ("perfrunner.cli.init", "Write the reference specs and a first one of your own."),
    "tune": (
        "perfrunner.cli.tune",
        "Quieten the hosts: governor, turbo, huge pages, swappiness, interrupts.",
    ),
    "untune": ("perfrunner.cli.tune", "Put back what tune changed."),
    "list": ("perfrunner.cli.list_", "The stored experiments."),
    "show": ("perfrunner.cli.show", "One experiment: its builds and trials."),
    "site": ("perfrunner.cli.site", "A static site over all stored experiments."),
    "serve": ("perfrunner.cli.serve", "Follow a running experiment in a browser."),
    "export": ("perfrunner.cli.export", "The measured values as CSV or Parquet."),
    "profile": ("perfrunner.cli.profile", "The stacks of a profiled experiment, for other tools."),
    "clean": ("perfrunner.cli.clean", "Remove builds, and leftovers on the hosts."),
}


class Failed(click.ClickException):
    """A PerfrunnerError on its way out: `error: ...`, then `hint: ...`, on stderr."""

    def __init__(self, error: PerfrunnerError) -> None:
        super().__init__(error.message)
        self.exit_code = error.exit_code  # type: ignore[misc]  # click reads it from the instance
        self.hint = error.hint

    def show(self, file: IO[Any] | None = None) -> None:
        """Print it; several lines (a spec's errors) each get their own `error:`."""
        label = "error:" if os.environ.get("NO_COLOR") else click.style("error:", fg="red")
        for line in self.message.splitlines() or [""]:
            click.echo(f"{label} {line}", file=file, err=True)
        if self.hint:
            click.echo(f"hint: {self.hint}", file=file, err=True)


class LazyGroup(click.Group):
    """Commands by name from COMMANDS; a mistyped name gets the nearest one proposed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands that are installed."""
        del ctx
        return [name for name, (module, _) in COMMANDS.items() if importlib.util.find_spec(module)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """None for a name that is no command."""
        if cmd_name not in self.list_commands(ctx):
            return None
        place, _ = COMMANDS[cmd_name]
        module = importlib.import_module(place)
        command = getattr(module, "command", None) or getattr(module, cmd_name)
        if not isinstance(command, click.Command):
            raise TypeError(f"{place} has no click command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """As click does, without loading any of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The names of commands, then the group's own options."""
        fitting = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        items = [CompletionItem(name, help=COMMANDS[name][1]) for name in fitting]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with a better message for a name that is no command."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and self.get_command(ctx, name) is None:
            from perfrunner.spec.suggest import nearest  # all of pydantic comes with it

            near = nearest(name, self.list_commands(ctx))
            text = (
                f"Did you mean {near}?" if near else f"Known: {', '.join(self.list_commands(ctx))}."
            )
            ctx.fail(f"No such command {name!r}. {text}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Every error becomes an exit code: one of the tool with a message, a defect with its traceback; Ctrl-C 130."""
        hold_standard_streams()
        try:
            return self._invoke(ctx)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except Exception:  # noqa: BLE001 - Python would end with 1, which is a verdict's
            note(traceback.format_exc().rstrip())
            ctx.exit(EXIT_FAILED)

    def _invoke(self, ctx: click.Context) -> Any:
        try:
            value = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            abandon_stdout()
            ctx.exit(EXIT_OK)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EIO, errno.EDQUOT) or error.filename:
                raise
            abandon_stdout()
            text = f"the result cannot be written to stdout: {error.strerror}"
            raise Failed(
                StoreError(text, "what was measured is stored: perfrunner report")
            ) from error
        except PerfrunnerError as error:
            raise Failed(error) from error
        except (KeyboardInterrupt, click.Abort):
            note("interrupted")
            ctx.exit(EXIT_INTERRUPTED)
        else:
            return value


@click.command(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="\b\nExit codes: 0 done, 1 a verdict that --fail-on names, 2 usage or spec error, 3 the run failed, "
    "75 the database is away, 130 interrupted."
    '\nShell completion: eval "$(_PERFRUNNER_COMPLETE=bash_source perfrunner)"',
)
@click.version_option(__version__, prog_name="perfrunner")
def main() -> None:
    """Build variants of a key-value engine, run them interleaved, and compare them honestly."""
