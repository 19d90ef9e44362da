"""Run the experiments of a study one after the other, and keep the results of each as soon as it ends.

A campaign can be killed at any moment and started again. It skips kept experiments, reads finished ones that are not
kept, and resumes an interrupted one as `perfrunner run --resume` does. An experiment without a block that counts ends
the campaign.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from perfrunner.errors import EXIT_INTERRUPTED, EXIT_OK, TrialError, UsageError
from perfrunner.experiment.events import Listener, RunOutcome
from perfrunner.experiment.run import RunRequest, run_experiment
from perfrunner.experiment.session import differences
from perfrunner.results import ExperimentRecord, ResultStore
from perfrunner.spec.loader import load_spec
from perfrunner.spec.model import Spec
from tools.evidence import extract, kept
from tools.evidence.between import neighbour
from tools.evidence.studies import Planned


@dataclass(frozen=True)
class Places:
    """The directories of a campaign. `out`: the results store. `keep`: the kept results."""

    out: Path
    keep: Path
    cache: Path
    engine_src: Path


@dataclass(frozen=True)
class Progress:
    """The progress after an experiment. `seconds`: how long the experiment took; 0 if its results were kept before."""

    name: str
    done: int
    total: int
    seconds: float


def run(
    plan: Iterable[Planned],
    places: Places,
    listener: Listener,
    *,
    tell: Callable[[Progress], None],
    until: float | None = None,
) -> int:
    """Run a study; return 0, 3 (a part did not count) or 130. No experiment starts after `until` (monotonic)."""
    planned = list(plan)
    code = EXIT_OK
    for number, experiment in enumerate(planned, start=1):
        began = time.monotonic()
        if _is_kept(experiment, places.keep):
            tell(Progress(experiment.name, number, len(planned), 0.0))
            continue
        path, text, spec = _spec(experiment, places.out)
        record = _newest(experiment.name, places.out)
        done = record is not None and record.state == "done"
        if record is not None and done:
            _require_same(record, spec, places.out)
        if not (done and _keep(experiment, places)):
            if until is not None and time.monotonic() >= until:
                return code
            again = record is not None and not done
            with neighbour(str(experiment.facts.get("neighbour", "none"))):
                outcome = _run(spec, text, path, places, listener, resume="" if again else None)
            if outcome.exit_code == EXIT_INTERRUPTED:
                return EXIT_INTERRUPTED
            if not _keep(experiment, places):
                raise TrialError(
                    f"{experiment.name}: no block counts: {'; '.join(outcome.failures[:1])}"
                )
            code = max(code, outcome.exit_code)
        tell(Progress(experiment.name, number, len(planned), time.monotonic() - began))
    return code


def _is_kept(experiment: Planned, keep: Path) -> bool:
    """Tell whether the results of an experiment are kept. Raises UsageError if they have other settings."""
    for comparison in kept.read(keep, experiment.study).comparisons:
        if comparison.experiment != experiment.name:
            continue
        wrong = [
            name for name, value in experiment.facts.items() if comparison.facts.get(name) != value
        ]
        if comparison.blocks > experiment.document["blocks"]:
            wrong.append("blocks")
        if wrong:
            raise UsageError(
                f"{experiment.name} is kept in {keep} with other settings: {', '.join(wrong)} differs",
                hint="give the same options, or another --out and --keep",
            )
        return True
    return False


def _spec(experiment: Planned, out: Path) -> tuple[Path, str, Spec]:
    """Write the spec of an experiment to a file, as JSON, which `perfrunner run` can also read."""
    path = out / "specs" / f"{experiment.name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(experiment.document, indent=1) + "\n"
    path.write_text(text, encoding="utf-8")
    return path, text, load_spec(path)


def _newest(name: str, out: Path) -> ExperimentRecord | None:
    with ResultStore.open(out) as store:
        return store.latest(name)


def _require_same(record: ExperimentRecord, spec: Spec, out: Path) -> None:
    changed = differences(record.spec_json, spec)
    if changed:
        raise UsageError(
            f"{record.id} in {out} was run with other settings: {', '.join(changed)} differs",
            hint="give the same options, or another --out and --keep",
        )


def _run(
    spec: Spec, text: str, path: Path, places: Places, listener: Listener, *, resume: str | None
) -> RunOutcome:
    request = RunRequest(
        spec=spec,
        spec_text=text,
        spec_path=path.resolve(),
        out_dir=places.out,
        engine_src=places.engine_src,
        cache_dir=places.cache,
        resume=resume,
        resume_command="the same command again",
    )
    return run_experiment(request, listener)


def _keep(experiment: Planned, places: Places) -> bool:
    """Keep the results of the newest experiment; return False if none of its blocks counts."""
    with ResultStore.open(places.out, create=False) as store:
        record = store.latest(experiment.name)
        if record is None:
            raise UsageError(f"{places.out} holds no experiment {experiment.name}")
        data = store.load(record.id)
    compared = extract.comparisons(experiment, data)
    if compared:
        before = kept.read(places.keep, experiment.study)
        kept.write(places.keep, before.having(compared, extract.host(data)))
    return bool(compared)
