"""`scripts/evidence`: run or resume a study, keep its results, and compute the figures of the documents."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from perfrunner.cli import options
from perfrunner.cli.group import Failed
from perfrunner.cli.output import duration, note
from perfrunner.cli.request import find_engine_source, gathered
from perfrunner.errors import PerfrunnerError
from perfrunner.spec.units import parse_duration
from tools.evidence import between, simulated, studies, tables
from tools.evidence.studies import Base, Load, Planned

QUICKSTART = Path("specs/experiments/quickstart.yaml")
DOCS = Path("docs")
DOCUMENT = DOCS / "explanation/accuracy.md"
GATE_DOCUMENT = Path("../how-to/ci.md")  # relative to DOCUMENT
KEEP = DOCS / "statistics"
OUT = Path("perfrunner-evidence")


def seconds(value: Any) -> float:
    """Parse a duration such as `250ms` or `5s`; a bare number is in seconds."""
    try:
        return float(value)
    except ValueError:
        return parse_duration(value)


Function = Callable[..., Iterable[Planned]]


@dataclass(frozen=True)
class Options:
    """The options that all studies share, apart from the load."""

    out_dir: Path
    keep_dir: Path
    document: Path
    cache_dir: Path
    engine_src: Path | None
    cluster: Path | None
    quiet: bool
    dry_run: bool
    minutes: float | None


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="A stopped study continues when the command is repeated. Kept results are not measured again: to start "
    "again, remove the study's file from --keep and give another --out.",
)
def main() -> None:
    """Measure how accurate perfrunner is; the figures are in docs/explanation/accuracy.md."""


def _study(
    load_s: float, *, ramp: float = 0.2, blocks: int = 10
) -> Callable[[Function], click.Command]:
    """Make a command that plans a study by `function(base, load=..., **options)` and runs it."""

    def decorate(function: Function) -> click.Command:
        @functools.wraps(function)
        def command(given: Options, load: float, ramp: float, blocks: int, **options: Any) -> None:
            base = Base.read(QUICKSTART, given.cluster)
            planned = list(function(base, load=Load(load, ramp, blocks), **options))
            if given.dry_run:
                _show(planned)
                return
            _run(planned, given)

        decorated: Any = gathered(Options, "given")(command)
        for option in (
            options.quiet_option,
            click.option("--dry-run", is_flag=True, help="Show the experiments and their load, and do nothing."),
            click.option("--minutes", type=float, metavar="N", help="Start no experiment after N minutes."),
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
                         help="Seconds of load on a variant in a block."),
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
_variants = click.option(
    "--variants", type=click.IntRange(2, 24), default=6, show_default=True, help="Even: pairs."
)


def _sweep(default: str) -> Callable[[Function], Function]:
    return click.option(
        "--sweep",
        callback=lambda _context, _option, text: [
            seconds(word.strip()) for word in text.split(",")
        ],
        default=default,
        show_default=True,
        metavar="SLICE,...",
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
@_variants
@click.option("--label", default="", metavar="WORD",
              help="Rows of their own in the table, for another state of the machine: idle, busy.")  # fmt: skip
def aa_study(base: Base, **options: Any) -> Iterable[Planned]:
    """Compare a build with itself: count alarms, and measure how narrow the intervals are."""
    return studies.aa(base, **_paired(options))


@_study(0.35, ramp=0.05, blocks=40)
@click.option("--experiments", type=click.IntRange(1), default=20, show_default=True)
@_bucket
@_relink("auto")
@click.option("--memory-load", type=seconds, default=8.0, show_default=True,
              help="Of the experiment on faults of memory; 0 leaves it out.")  # fmt: skip
def injected_study(
    base: Base, *, memory_load: float, load: Load, **options: Any
) -> Iterable[Planned]:
    """Measure faults of known size (build option `injected`): how often they are found, and their estimated size."""
    yield from studies.injected(base, load=load, **options)
    if memory_load:
        longer = Load(memory_load, 1.0)
        yield from studies.injected_memory(
            base, bucket=options["bucket"], relink=options["relink"], load=longer
        )


@_study(0.5, blocks=20)
@click.option("--faults", default="share,background,burst,footprint,lock", show_default=True, metavar="FAULT,...",
              help=f"Of {', '.join(studies.SIZED)}.")  # fmt: skip
@_sweep("2ms")
@_bucket
@_relink("auto")
def account_study(base: Base, *, faults: str, **options: Any) -> Iterable[Planned]:
    """Compare the account of a change with what the server counted, for faults in five sizes."""
    names = _words(faults, tuple(studies.SIZED), "--faults")
    return studies.account(base, faults=names, **options)


@_study(2.0)
@click.option("--experiments", type=click.IntRange(1), default=10, show_default=True)
@_bucket
@_relink("auto")
def explain_study(base: Base, **options: Any) -> Iterable[Planned]:
    """Count how often `perfrunner explain` names the function with a fault first, and how often one without."""
    return studies.explain(base, **options)


@_study(2.0)
@_sweep("0.2ms,1ms,2ms,5ms,20ms")
@_bucket
@_relink("auto")
def slices_study(base: Base, **options: Any) -> Iterable[Planned]:
    """Compare glibc with jemalloc 5.1 with slices of several lengths."""
    return studies.slices(base, **options)


@_study(0.5)
@click.option("--runs", type=click.IntRange(2), default=6, show_default=True)
@_sweep("2ms")
@click.option("--neighbours", default=",".join(between.NEIGHBOURS), show_default=True, metavar="NAME,...",
              help="none: an idle machine; memory: a process that walks through 64 MB, half of the time.")  # fmt: skip
@_bucket
@_relink("auto")
def between_study(
    base: Base, *, runs: int, sweep: list[float], neighbours: str, **options: Any
) -> Iterable[Planned]:
    """Repeat a comparison of glibc with jemalloc 5.1, with and without a busy neighbour."""
    names = _words(neighbours, between.NEIGHBOURS, "--neighbours")
    return between.between(base, repeats=between.Repeats(runs, sweep, names), **options)


@_study(0.4, ramp=0.1)
@click.option(
    "--comparisons", type=click.IntRange(1), default=12, show_default=True, help="Of each kind."
)
@_bucket
@_variants
def relink_study(base: Base, **options: Any) -> Iterable[Planned]:
    """Compare one source with itself, with one layout and with a layout per variant and block."""
    return studies.relink(base, **_paired(options))


@_study(2.0, ramp=1.0, blocks=8)
def memory_study(base: Base, **options: Any) -> Iterable[Planned]:
    """Compare memory figures of interleaved trials with those of sequential ones."""
    return studies.memory(base, **options)


@main.command("report")
@click.option(
    "--keep", "keep_dir", type=click.Path(path_type=Path), default=KEEP, show_default=True
)
@click.option("--document", type=click.Path(path_type=Path), default=DOCUMENT, show_default=True)
def report(keep_dir: Path, document: Path) -> None:
    """Compute docs/explanation/accuracy.md from the kept results; measures nothing."""
    try:
        _report(keep_dir, document)
    except PerfrunnerError as error:
        raise Failed(error) from error


@main.command("simulate")
@click.option("--only", default="", metavar="NAME,...",
              help=f"Some of {', '.join(simulated.SIMULATIONS)}; all take some minutes.")  # fmt: skip
@click.option("--docs", type=click.Path(path_type=Path), default=DOCS, show_default=True)
def simulate(only: str, docs: Path) -> None:
    """Simulate the error rates that the documents state, and write them there; nothing is measured."""
    names = _words(only, tuple(simulated.SIMULATIONS), "--only") if only else simulated.SIMULATIONS
    try:
        for name in names:
            document, simulation = simulated.SIMULATIONS[name]
            changed = tables.write(docs / document, {name: tables.wrapped(simulation())})
            note(f"{docs / document}: {name}: {'rewritten' if changed else 'as it was'}")
    except PerfrunnerError as error:
        raise Failed(error) from error


def _words(text: str, known: Sequence[str], option: str) -> list[str]:
    """Split `a,b` into words of `known`."""
    words = [word.strip() for word in text.split(",")]
    if unknown := [word for word in words if word not in known]:
        raise click.BadParameter(
            f"expected some of {', '.join(known)}, got {', '.join(unknown)}", param_hint=option
        )
    return words


def _paired(options: dict[str, Any]) -> dict[str, Any]:
    if options["variants"] % 2:
        raise click.BadParameter(
            f"expected an even number, got {options['variants']}", param_hint="--variants"
        )
    return options


def _show(planned: list[Planned]) -> None:
    total = 0.0
    for experiment in planned:
        blocks, variants = experiment.document["blocks"], len(experiment.document["variants"])
        load_s = experiment.facts["load_s"] * blocks * variants
        total += load_s
        click.echo(
            f"{experiment.name}: {variants} variants, {blocks} blocks, {duration(load_s)} of load"
        )
    click.echo(
        f"{len(planned)} experiments, {duration(total)} of load (of pillowfight, ramps left out)"
    )


def _run(planned: list[Planned], given: Options) -> None:
    from perfrunner.cli.progress import progress_listener
    from tools.evidence import campaign

    until = None if given.minutes is None else time.monotonic() + 60 * given.minutes
    try:
        places = campaign.Places(
            given.out_dir,
            given.keep_dir,
            given.cache_dir,
            find_engine_source(given.engine_src, QUICKSTART),
        )
        with progress_listener(given.quiet) as listener:
            code = campaign.run(
                planned,
                places,
                listener,
                tell=lambda p: note(f"{p.done} of {p.total}: {p.name}, {duration(p.seconds)}"),
                until=until,
            )
        _report(given.keep_dir, given.document)
    except PerfrunnerError as error:
        raise Failed(error) from error
    if code:
        click.get_current_context().exit(code)


def _report(keep_dir: Path, document: Path) -> None:
    changed = tables.update(document, keep_dir)
    note(f"{document}: {'rewritten' if changed else 'as it was'}")
    gate = document.parent / GATE_DOCUMENT
    if gate.is_file() and tables.update(gate, keep_dir, (tables.GATE,)):
        note(f"{gate}: rewritten")


if __name__ == "__main__":
    main()
