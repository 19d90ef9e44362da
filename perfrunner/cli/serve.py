"""`perfrunner serve`: a running experiment in a browser of this machine."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from perfrunner.cli import complete, options
from perfrunner.cli.output import note


@click.command(
    "serve",
    short_help="Follow a running experiment in a browser.",
    epilog="\b\nExamples:\n  perfrunner serve                the latest experiment"
    "\n  perfrunner serve quickstart --port 8000"
    "\n\nRead-only, for this machine alone; Ctrl-C ends it. A page takes CPU time when it is asked for: where that"
    " would disturb the measurement, serve a copy of the results directory elsewhere.",
)
@click.argument("experiment", required=False, shell_complete=complete.experiments)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8321, show_default=True, help="0: any."
)
@options.out_option
def command(experiment: str | None, port: int, out_dir: Path) -> None:
    """Show how far an EXPERIMENT is (default: the latest), with provisional estimates, and the others of the store."""
    from perfrunner.errors import UsageError
    from perfrunner.report.live import LiveServer
    from perfrunner.results import open_store

    opened = partial(open_store, out_dir, options.store_url(), create=False)
    with opened() as store:
        store.resolve(experiment)  # said now, not to the first browser
    try:
        server = LiveServer(opened, experiment, port)
    except OSError as error:
        raise UsageError(f"port {port}: {error.strerror}", "--port 0 takes any") from None
    with server:
        note(f"{server.address} (Ctrl-C ends)")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            note("ended")
