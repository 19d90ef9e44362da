"""The second half of a night: compare the last good commit with tonight's where a series looks worse."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfrunner.analysis.nights import BLOCKS, Suspicion, confirms_loss, suspicions
from perfrunner.analysis.series import Key
from perfrunner.errors import EXIT_OK

if TYPE_CHECKING:
    from perfrunner.analysis.series import History
    from perfrunner.results import ExperimentData
    from perfrunner.spec.model import Spec

DIRECTORY = "verify"  # below the nightly directory: the generated specs
FILE = "verified.json"
MOST = 6  # comparisons of a spec in a night: a loss in many cases needs no more to be believed


@dataclass(frozen=True)
class Decision:
    """The decision of a comparison of two commits. `text` describes a confirmed loss until it is reported."""

    key: Key
    good: str
    bad: str
    loss: bool
    text: str = ""


@dataclass
class Verification:
    """The comparisons of a night's suspicions. `directory` keeps their specs and what was decided.

    `run` measures a spec and returns the exit code; `latest` loads the newest experiment of a name; `bisect` searches
    for the commit of a suspicion and returns its finding, or an empty text.
    """

    directory: Path
    run: Callable[[Path], int]
    latest: Callable[[str], ExperimentData | None]
    bisect: Callable[[Suspicion], str]
    log: Callable[[str], None]

    def decide(self, spec: Spec, histories: Sequence[History], since: datetime) -> list[Decision]:
        """Decide each suspicion of tonight by a comparison, or by one of an earlier night that still applies.

        The losses that earlier nights confirmed and could not report are decisions as well. Of more than MOST
        comparisons, the others are not made, and nothing is decided about their series. `bisect` searches once for the
        losses of a variant and metric.
        """
        compared = 0
        decisions = [it for it in _kept(self.directory).get(spec.name, []) if it.text]
        for suspicion in suspicions(histories, since):
            earlier = _kept(self.directory).get(spec.name, [])
            decision = next((it for it in earlier if _applies(it, suspicion)), None)
            if decision is None:
                if compared == MOST:
                    self.log(f"{_what(suspicion)} looks worse: {MOST} others were compared\n")
                    continue
                compared += 1
                first = not any(it.text and it.key[:2] == suspicion.key[:2] for it in decisions)
                decision = self._compared(spec, suspicion, self.bisect if first else lambda _: "")
                if decision is None:
                    continue
                _keep(self.directory, {spec.name: [*earlier, decision]})
            if decision not in decisions:
                decisions.append(decision)
        return decisions

    def _compared(
        self, spec: Spec, suspicion: Suspicion, bisect: Callable[[Suspicion], str]
    ) -> Decision | None:
        """Compare the two commits of a suspicion; None if that fails, so that nothing is decided."""
        from perfrunner.analysis.account import COUNTERPARTS
        from perfrunner.analysis.compare import compare
        from perfrunner.report.numbers import change_of
        from perfrunner.report.redact import redacted
        from perfrunner.spec.pair import spec_document

        series = suspicion.series
        direct = direct_comparison(spec, suspicion)
        path = self.directory / DIRECTORY / f"{direct.name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(spec_document(direct), encoding="utf-8")
        what = _what(suspicion)
        self.log(f"{what} looks worse: comparing {suspicion.good} with {suspicion.bad}\n")
        code = self.run(path)
        data = self.latest(direct.name) if code == EXIT_OK else None
        comparison = None if data is None else compare(redacted(data))
        row = (
            None
            if comparison is None
            else comparison.row(series.case, series.metric.id, comparison.variants[-1])
        )
        loss = None if row is None else confirms_loss(row)
        if comparison is None or row is None or row.effect is None or loss is None:
            why = f": {row.reason}" if row is not None and row.reason else ""
            self.log(f"the comparison failed (exit code {code}){why}: nothing is decided\n")
            return None
        shown = change_of(row)
        for name in COUNTERPARTS.get(row.metric.id, ()):
            if other := comparison.row(row.case, name, row.variant):
                shown += f", {name} {change_of(other)}"
                break
        self.log(f"{'confirmed' if loss else 'not confirmed'}: {shown} in {row.effect.n} blocks\n")
        text = ""
        if loss:
            where = bisect(suspicion) or f"commits {suspicion.good} (exclusive) to {suspicion.bad}"
            text = f"worse: {what}: {shown} in {row.effect.n} interleaved blocks; {where}"
        return Decision(suspicion.key, suspicion.good, suspicion.bad, loss, text)


def _what(suspicion: Suspicion) -> str:
    series = suspicion.series
    return f"{series.metric.id} of {series.variant} on {series.case}"


def note_reported(directory: Path, specs: Sequence[str]) -> None:
    """Note that the confirmed losses of these specs are reported. Raises StoreError."""
    kept = _kept(directory)
    reported = {
        spec: [replace(decision, text="") for decision in kept[spec]]
        for spec in specs
        if any(decision.text for decision in kept.get(spec, ()))
    }
    if reported:
        _keep(directory, reported)


def _kept(directory: Path) -> dict[str, list[Decision]]:
    """Return earlier decisions by spec; none if the file cannot be read, so that they are made again."""
    try:
        document = json.loads((directory / FILE).read_text(encoding="utf-8"))
        return {name: [_decision(it) for it in decisions] for name, decisions in document.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def _keep(directory: Path, decisions: Mapping[str, Sequence[Decision]]) -> None:
    """Replace the decisions of some specs."""
    from perfrunner.results.files import write_whole

    kept = {**_kept(directory), **decisions}
    document = {name: [asdict(decision) for decision in made] for name, made in kept.items()}
    write_whole(directory / FILE, (json.dumps(document, indent=1) + "\n").encode())


def direct_comparison(spec: Spec, suspicion: Suspicion) -> Spec:
    """Return the spec that compares the suspected variant at two commits, in the case of the suspicion."""
    from perfrunner.domain import NO_BUCKET
    from perfrunner.spec.pair import pair
    from perfrunner.spec.source import SourceSpec

    series = suspicion.series
    sources = {
        f"good-{suspicion.good}": SourceSpec(git=suspicion.good),
        suspicion.bad: SourceSpec(git=suspicion.bad),
    }
    base = spec.restricted((series.case.workload,), None)
    name = f"verify-{spec.name}-{series.case.workload}-{suspicion.bad}"
    changes: dict[str, object] = {
        "blocks": BLOCKS,
        "precision": None,
        "primary": (series.metric.id,),
    }
    if series.case.bucket != NO_BUCKET:
        changes["buckets"] = (series.case.bucket,)
    return pair(base, name, sources, series.variant).only_compared().model_copy(update=changes)


def _applies(decision: Decision, suspicion: Suspicion) -> bool:
    """Return whether an earlier comparison decides a suspicion: the same commit, or a loss since the same good one."""
    if decision.key != suspicion.key:
        return False
    since_then = [run.commit for run in suspicion.series.runs[-2 * BLOCKS :]]
    reported = decision.loss and decision.bad in since_then and decision.bad != suspicion.good
    return decision.bad == suspicion.bad or (reported and not _newer(suspicion, decision.bad))


def _newer(suspicion: Suspicion, bad: str) -> bool:
    """Return whether the good commit of a suspicion was built after the confirmed loss: then it is another one."""
    commits = [run.commit for run in suspicion.series.runs]
    return commits.index(suspicion.good) > commits.index(bad)


def _decision(record: Mapping[str, Any]) -> Decision:
    metric, variant, workload, bucket = record["key"]
    return Decision(
        (metric, variant, workload, bucket),
        str(record["good"]),
        str(record["bad"]),
        bool(record["loss"]),
        str(record.get("text", "")),
    )
