"""A store with nights of one spec, built from commits that are known, with a gain that is lost on one of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import synthetic

from perfrunner.results import ResultStore
from perfrunner.sources.model import SOURCES_FACT, ResolvedSource, as_record

RUNS = 20
LOST = 12  # the run from which the gain is gone
VARIANTS = synthetic.VARIANTS[:2]
SHAPE = synthetic.Shape(
    blocks=6, discarded_block=None, workloads=("append",), buckets=("ephemeral",), variants=VARIANTS,
    sd=0.002,
)  # fmt: skip
TITLE = "hash <table>: grow later"  # what people write is text, never markup


def write(directory: Path, slower: float = 1.0, then: float = 0.97) -> None:
    """Runs `nightly-00` to `nightly-19`; of `nightly-13` there is a page. `slower`, `then`: how fast variants are."""
    synthetic.write(directory, SHAPE, "template")
    with ResultStore.open(directory) as store:
        template = store.load("template")
        store.delete("template")
        for night in range(RUNS):
            lost = night >= LOST
            variants = {
                VARIANTS[0]: _source("a" * 40),
                VARIANTS[1]: _source(("c" if lost else "b") * 40),
            }
            record = replace(
                template.experiment, id=f"nightly-{night:02d}", name="nightly",
                created_at=template.experiment.created_at + timedelta(days=night),
                facts={**template.experiment.facts, SOURCES_FACT: {"variants": variants, "tools": _source("a" * 40)}},
            )  # fmt: skip
            store.create_experiment(record)
            for build in template.builds:
                store.add_build(record.id, replace(build, build_id=f"b{lost:d}"))
            for trial in template.trials:
                speed = (then if lost else slower) * (1 + 0.0003 * ((night * 7) % 5))
                ops = trial.metrics["ops_per_s"] * (speed if trial.variant != VARIANTS[0] else 1)
                store.add_trials(
                    record.id, [replace(trial, metrics={**trial.metrics, "ops_per_s": ops})]
                )
            store.set_state(record.id, "done")
    (directory / "nightly-13").mkdir()
    (directory / "nightly-13" / "report.html").write_text("<p>night 13")


def _source(commit: str) -> dict[str, object]:
    return as_record(ResolvedSource("main", "0" * 64, "/engine", 1, True, commit, TITLE))
