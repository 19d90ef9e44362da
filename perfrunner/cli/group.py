"""The command group: loads a command's module when it is asked for, and turns errors into exit codes."""

from __future__ import annotations

import importlib
import importlib.util
import os
from typing import IO, Any

import click

from perfrunner import __version__
from perfrunner.errors import EXIT_INTERRUPTED, PerfrunnerError
from perfrunner.spec.suggest import nearest

# Name -> module with a click command called `command` (or by its name), in the order of --help. Loading on demand
# keeps --help and completion quick: numpy, matplotlib and fabric together cost more than a second.
COMMANDS = {
    "run": "perfrunner.cli.run",
    "ab": "perfrunner.cli.ab",
    "build": "perfrunner.cli.build",
    "validate": "perfrunner.cli.validate",
    "plan": "perfrunner.cli.plan",
    "doctor": "perfrunner.cli.doctor",
    "report": "perfrunner.cli.report",
    "bisect": "perfrunner.cli.bisect",
    "compare": "perfrunner.cli.compare",
    "history": "perfrunner.cli.history",
    "aa": "perfrunner.cli.aa",
    "list": "perfrunner.cli.list_",
    "show": "perfrunner.cli.show",
    "site": "perfrunner.cli.site",
    "export": "perfrunner.cli.export",
    "clean": "perfrunner.cli.clean",
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
        return [name for name, module in COMMANDS.items() if importlib.util.find_spec(module)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """None for a name that is no command."""
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(COMMANDS[cmd_name])
        command = getattr(module, "command", None) or getattr(module, cmd_name)
        if not isinstance(command, click.Command):
            raise TypeError(f"{COMMANDS[cmd_name]} has no click command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with a better message for a name that is no command."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and self.get_command(ctx, name) is None:
            near = nearest(name, self.list_commands(ctx))
            text = (
                f"Did you mean {near}?" if near else f"Known: {', '.join(self.list_commands(ctx))}."
            )
            ctx.fail(f"No such command {name!r}. {text}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Every error of the tool becomes a message and an exit code; Ctrl-C becomes 130."""
        try:
            return super().invoke(ctx)
        except PerfrunnerError as error:
            raise Failed(error) from error
        except (KeyboardInterrupt, click.Abort):
            click.echo("interrupted", err=True)
            ctx.exit(EXIT_INTERRUPTED)


@click.command(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="\b\nExit codes: 0 done, 1 a verdict that --fail-on names, 2 usage or spec error, 3 the run failed, "
    '130 interrupted.\nShell completion: eval "$(_PERFRUNNER_COMPLETE=bash_source perfrunner)"',
)
@click.version_option(__version__, prog_name="perfrunner")
def main() -> None:
    """Build variants of a key-value engine, run them interleaved, and compare them honestly."""
