"""`perfrunner site` and `serve`: show experiments in a browser, as static files or while they run."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from perfrunner.cli import complete, options
from perfrunner.cli.options import DEFAULT_OUT, store_option, store_url
from perfrunner.cli.output import note
from perfrunner.text import count_of


@click.command(
    "site",
    epilog="\b\nExamples:\n  perfrunner site public/                          from ./perfrunner-results"
    "\n  perfrunner site public/ --out nightly/ --out laptop/"
    "\n  perfrunner site public/ --store postgresql://perf@db.example.org/results"
    "\n\nThe site needs no server: open DIR/index.html. It links to the report.html of each experiment that has one.",
)
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--out",
    "stores",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    envvar="PERFRUNNER_OUT",
    multiple=True,
    help="Results directory; repeatable (default: ./perfrunner-results).",
)
@store_option
def command(directory: Path, stores: tuple[Path, ...]) -> None:
    """Write a static site to DIR: all experiments, the history of each spec, and a page for each variant and host."""
    from perfrunner.report.site import write_site

    written = write_site(stores or (DEFAULT_OUT,), directory, store_url())
    note(f"site {directory / 'index.html'} ({count_of(len(written), 'file')})")


@click.command(
    "serve",
    epilog="\b\nExamples:\n  perfrunner serve                the latest experiment"
    "\n  perfrunner serve quickstart --port 8000"
    "\n\nThe server is read-only and listens on this machine only; stop it with Ctrl-C. Rendering a page takes CPU"
    " time. If that would disturb the measurement, serve a copy of the results directory on another machine.",
)
@click.argument("experiment", required=False, shell_complete=complete.experiments)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    default=8321,
    show_default=True,
    help="TCP port; 0 takes a free one.",
)
@options.out_option
def serve(experiment: str | None, port: int, out_dir: Path) -> None:
    """Serve the progress and provisional estimates of EXPERIMENT (default: the latest), and the other experiments."""
    from perfrunner.errors import UsageError
    from perfrunner.report.live import LiveServer
    from perfrunner.results import open_store

    opened = partial(open_store, out_dir, options.store_url(), create=False)
    with opened() as store:
        store.resolve(experiment)  # report an unknown name now, not in the first browser
    try:
        server = LiveServer(opened, experiment, port)
    except OSError as error:
        raise UsageError(
            f"--port {port}: cannot listen: {error.strerror}", "--port 0 takes a free port"
        ) from None
    with server:
        note(f"{server.address} (stop with Ctrl-C)")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            note("stopped")
