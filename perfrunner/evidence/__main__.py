"""`scripts/evidence`: run or resume a study, keep what it measured, and compute docs/statistics.md from it."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from perfrunner.cli import options
from perfrunner.cli.engine_source import find_engine_source
from perfrunner.cli.group import Failed
from perfrunner.cli.output import duration, note
from perfrunner.errors import PerfrunnerError
from perfrunner.evidence import studies
from perfrunner.evidence.studies import Base, Load, Planned
from perfrunner.spec.units import parse_duration

QUICKSTART = Path("specs/experiments/quickstart.yaml")
DOCUMENT = Path("docs/statistics.md")
GATE_DOCUMENT = "ci.md"  # beside it
KEEP = Path("docs/statistics")
OUT = Path("perfrunner-evidence")


def seconds(value: Any) -> float:
    """`250ms`, `5s`; a bare number is seconds."""
    try:
        return float(value)
    except ValueError:
        return parse_duration(value)


Function = Callable[..., Iterable[Planned]]


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="A study that was stopped, or killed, goes on when the same command is given again. What is kept is not "
    "measured again: remove the study's file of --keep (and give another --out) to begin anew.",
)
def main() -> None:
    """Long measurements that show whether perfrunner tells the truth; their figures are in docs/statistics.md."""


def _study(
    load_s: float, *, ramp: float = 0.2, blocks: int = 10
) -> Callable[[Function], click.Command]:
    """A command that plans a study by `function(base, load=..., **its own options)` and runs it."""

    def decorate(function: Function) -> click.Command:
        @functools.wraps(function)
        def command(
            out_dir: Path,
            keep_dir: Path,
            document: Path,
            cache_dir: Path,
            engine_src: Path | None,
            cluster: Path | None,
            quiet: bool,
            dry_run: bool,
            minutes: float | None,
            load: float,
            ramp: float,
            blocks: int,
            **its: Any,
        ) -> None:
            base = Base.read(QUICKSTART, cluster)
            planned = list(function(base, load=Load(load, ramp, blocks), **its))
            if dry_run:
                _show(planned)
                return
            _run(planned, out_dir, keep_dir, document, cache_dir, engine_src, quiet, minutes)

        decorated: Any = command
        for option in (
            options.quiet_option,
            click.option("--dry-run", is_flag=True, help="Show the experiments and their load, and do nothing."),
            click.option("--minutes", type=float, metavar="N", help="Begin no experiment after so many minutes."),
            options.engine_source_option,
            options.cache_option,
            options.cluster_option,
            click.option("--document", type=click.Path(path_type=Path), default=DOCUMENT, show_default=True),
            click.option("--keep", "keep_dir", type=click.Path(path_type=Path), default=KEEP, show_default=True,
                         help="Where what the figures need is kept."),
            click.option("--out", "out_dir", type=click.Path(path_type=Path), default=OUT, show_default=True,
                         help="The results store of the experiments."),
            click.option("--blocks", type=click.IntRange(6, 1000), default=blocks, show_default=True),
            click.option("--ramp", type=seconds, default=ramp, show_default=True,
                         help="Seconds of load that do not count, before."),
            click.option("--load", type=seconds, default=load_s, show_default=True,
                         help="Seconds of load on an arm in a block."),
        ):  # fmt: skip
            decorated = option(decorated)
        return main.command(function.__name__.removesuffix("_study"))(decorated)

    return decorate


_bucket = click.option(
    "--bucket",
    type=click.Choice(["ephemeral", "persistent"]),
    default="ephemeral",
    show_default=True,
)
_arms = click.option(
    "--arms", type=click.IntRange(2, 24), default=6, show_default=True, help="Even: pairs."
)


def _relink(default: str) -> Callable[[Function], Function]:
    return click.option(
        "--relink",
        type=click.Choice(["auto", "shuffle", "never"]),
        default=default,
        show_default=True,
    )


@_study(0.4, ramp=0.1)
@click.option("--comparisons", type=click.IntRange(1), default=100, show_default=True)
@_bucket
@_arms
@click.option("--label", default="", metavar="WORD",
              help="Rows of their own in the table, for another state of the machine: idle, busy.")  # fmt: skip
def aa_study(base: Base, **its: Any) -> Iterable[Planned]:
    """Comparisons of a build with itself: how often one alarms, and how narrow the intervals are."""
    return studies.aa(base, **_paired(its))


@_study(0.35, ramp=0.05, blocks=40)
@click.option("--experiments", type=click.IntRange(1), default=20, show_default=True)
@_bucket
@_relink("auto")
@click.option("--memory-load", type=seconds, default=8.0, show_default=True,
              help="Of the experiment on faults of memory; 0 leaves it out.")  # fmt: skip
def planted_study(base: Base, *, memory_load: float, load: Load, **its: Any) -> Iterable[Planned]:
    """Faults of known size (build option `planted`): how often they are found, and how large they seem."""
    yield from studies.planted(base, load=load, **its)
    if memory_load:
        longer = Load(memory_load, 1.0)
        yield from studies.planted_memory(
            base, bucket=its["bucket"], relink=its["relink"], load=longer
        )


@_study(2.0)
@click.option("--sweep", default="0.2ms,1ms,2ms,5ms,20ms", show_default=True, metavar="SLICE,...")
@_bucket
@_relink("auto")
def slices_study(base: Base, *, sweep: str, **its: Any) -> Iterable[Planned]:
    """glibc against jemalloc 5.1 with slices of several lengths: does the answer depend on them?"""
    lengths = [seconds(word.strip()) for word in sweep.split(",")]
    return studies.slices(base, sweep=lengths, **its)


@_study(0.4, ramp=0.1)
@click.option(
    "--comparisons", type=click.IntRange(1), default=12, show_default=True, help="Of each kind."
)
@_bucket
@_arms
def relink_study(base: Base, **its: Any) -> Iterable[Planned]:
    """The A/A of one source, with one layout and with one for each arm and block."""
    return studies.relink(base, **_paired(its))


@_study(2.0, ramp=1.0, blocks=8)
def memory_study(base: Base, **its: Any) -> Iterable[Planned]:
    """Figures of memory side by side against those of one arm at a time."""
    return studies.memory(base, **its)


@main.command("report")
@click.option(
    "--keep", "keep_dir", type=click.Path(path_type=Path), default=KEEP, show_default=True
)
@click.option("--document", type=click.Path(path_type=Path), default=DOCUMENT, show_default=True)
def report(keep_dir: Path, document: Path) -> None:
    """Compute docs/statistics.md from what is kept; nothing is measured."""
    try:
        _report(keep_dir, document)
    except PerfrunnerError as error:
        raise Failed(error) from error


def _paired(its: dict[str, Any]) -> dict[str, Any]:
    if its["arms"] % 2:
        raise click.BadParameter(f"expected an even number, got {its['arms']}", param_hint="--arms")
    return its


def _show(planned: list[Planned]) -> None:
    total = 0.0
    for one in planned:
        blocks, arms = one.document["blocks"], len(one.document["variants"])
        its = one.facts["load_s"] * blocks * arms
        total += its
        click.echo(f"{one.name}: {arms} arms, {blocks} blocks, {duration(its)} of load")
    click.echo(
        f"{len(planned)} experiments, {duration(total)} of load (of pillowfight, ramps left out)"
    )


def _run(
    planned: list[Planned],
    out_dir: Path,
    keep_dir: Path,
    document: Path,
    cache_dir: Path,
    engine_src: Path | None,
    quiet: bool,
    minutes: float | None,
) -> None:
    from perfrunner.cli.progress import progress_listener
    from perfrunner.evidence import campaign

    until = None if minutes is None else time.monotonic() + 60 * minutes
    try:
        places = campaign.Places(
            out_dir, keep_dir, cache_dir, find_engine_source(engine_src, QUICKSTART)
        )
        with progress_listener(quiet) as listener:
            code = campaign.run(
                planned,
                places,
                listener,
                tell=lambda p: note(f"{p.done} of {p.total}: {p.name}, {duration(p.seconds)}"),
                until=until,
            )
        _report(keep_dir, document)
    except PerfrunnerError as error:
        raise Failed(error) from error
    if code:
        click.get_current_context().exit(code)


def _report(keep_dir: Path, document: Path) -> None:
    from perfrunner.evidence import tables

    changed = tables.update(document, keep_dir)
    note(f"{document}: {'rewritten' if changed else 'as it was'}")
    gate = document.with_name(GATE_DOCUMENT)
    if gate.is_file() and tables.update(gate, keep_dir, (tables.GATE,)):
        note(f"{gate}: rewritten")


if __name__ == "__main__":
    main()
