"""A campaign with fake programs that really run: what is kept, and that what was stopped goes on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from perfrunner.build import builders
from perfrunner.build.artifact import Artifact
from perfrunner.build.settings_check import SettingsCheck
from perfrunner.errors import TrialError, UsageError
from perfrunner.experiment import events as ev
from perfrunner.experiment.preflight import builds
from perfrunner.measure import cpu_profile
from perfrunner.measure.slices import levels
from perfrunner.results import ResultStore
from tests.support.fakes import write_artifact, write_perf
from tools.evidence import campaign, kept, studies
from tools.evidence.campaign import Places, Progress
from tools.evidence.studies import Base, Load, Planned

pytestmark = pytest.mark.integration
QUICKSTART = Path(__file__).parents[3] / "specs" / "experiments" / "quickstart.yaml"


class Watch:
    """Notes what runs; raises what it is asked to at the end of the n-th trial."""

    def __init__(self) -> None:
        self.begun: list[bool] = []  # of each experiment that ran: whether it was resumed
        self.trials = 0
        self.raise_after: int | None = None

    def on_event(self, event: ev.Event) -> None:
        if isinstance(event, ev.PlanReady):
            self.begun.append(event.resumed)
        if isinstance(event, ev.TrialFinished):
            self.trials += 1
            if self.trials == self.raise_after:
                raise RuntimeError("stopped here")


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    artifact = write_artifact(tmp_path / "artifact")
    monkeypatch.setattr(
        builders, "build_variant", lambda *_: Artifact("fake", artifact, {"fake": True}, True, 0.0)
    )
    monkeypatch.setattr(
        builds, "check", lambda *_, **__: SettingsCheck({"allocator": "system"}, {})
    )
    return Places(tmp_path / "out", tmp_path / "keep", tmp_path / "cache", Path("engine_src"))


def base_here(tmp_path: Path) -> Base:
    cluster = tmp_path / "cluster.yaml"
    host = {"address": "127.0.0.1", "work_dir": str(tmp_path / "work")}
    cluster.write_text(
        json.dumps(
            {
                "name": "here", "transport": "local", "hosts": {"here": host},
                "engine_nodes": ["here"], "load_clients": ["here"],
            }
        )
    )  # fmt: skip
    return Base.read(QUICKSTART, cluster)


def plan(tmp_path: Path, *, comparisons: int, blocks: int = 1, variants: int = 2) -> list[Planned]:
    return list(
        studies.aa(
            base_here(tmp_path),
            bucket="ephemeral",
            comparisons=comparisons,
            variants=variants,
            load=Load(0.1, 0.0, blocks),
        )
    )


def run(planned: list[Planned], places: Places, watch: Watch) -> tuple[int, list[Progress]]:
    messages: list[Progress] = []
    return campaign.run(planned, places, watch, tell=messages.append), messages


@pytest.mark.long
def test_the_functions_that_explain_names_are_kept(
    tmp_path: Path, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_profile, "PROGRAM", str(write_perf(tmp_path)))
    load = Load(0.1, 0.0, 3)
    planned = studies.explain(
        base_here(tmp_path), bucket="ephemeral", experiments=1, load=load, relink="never"
    )
    code, _ = run(list(planned), places, Watch())
    assert code == 0
    (single,) = kept.read(places.keep, "explain").comparisons
    assert tuple(single.values) == ("none", "again", "share2")
    for variant in ("again", "share2"):
        matches = single.facts["explained"][variant]
        # `cold` has 4 samples in each of six trials; `hot` has one, too few to be compared.
        assert (matches["samples"], matches["functions"]) == (30, 1)
        assert (matches["changed"] == 0) == (matches["first"] is None)


def test_a_pair_is_measured_by_its_own_slices_and_not_measured_again(
    tmp_path: Path, places: Places
) -> None:
    planned, watch = plan(tmp_path, comparisons=2, variants=4), Watch()
    code, (messages,) = run(planned, places, watch)
    assert (code, messages.done, messages.total) == (0, 1, 1)
    first, second = kept.read(places.keep, "aa").comparisons
    assert (tuple(first.values), tuple(second.values)) == (("a1", "b1"), ("a2", "b2"))
    output = first.facts["report"]
    assert output == second.facts["report"], "of the whole experiment"
    assert (output["rows"], output["differ"]) == (0, []), "of one block there are no intervals"
    with ResultStore.open(places.out) as store:
        (summary,) = store.list()
        trials = {t.variant: t for t in store.load(summary.experiment.id).trials}
    slices = [
        json.loads((places.out / trials[variant].raw_dir / "slices.json").read_text())
        for variant in ("a2", "b2")
    ]
    rates = np.column_stack([np.array(s["ops"]) / np.array(s["wall_ns"]) * 1e9 for s in slices])
    expected = levels(rates, 0)
    assert [second.values[variant]["ops_per_s"][0] for variant in ("a2", "b2")] == pytest.approx(
        expected
    )
    assert second.values["b2"]["ops_per_s"][0] != trials["b2"].metrics["ops_per_s"]

    code, (messages,) = run(planned, places, watch)
    assert (code, messages.seconds, watch.begun) == (0, 0.0, [False]), "nothing ran again"
    (places.keep / "aa.json").unlink()
    run(planned, places, watch)
    assert watch.begun == [False], "what is stored is only read again"
    assert kept.read(places.keep, "aa").comparisons == (first, second)

    changed = plan(tmp_path, comparisons=2, variants=4)
    changed[0].facts["load_s"] = 5.0  # type: ignore[index]
    with pytest.raises(UsageError, match="with other settings: load_s differs"):
        run(changed, places, watch)


def test_what_was_stopped_goes_on(tmp_path: Path, places: Places) -> None:
    planned, watch = plan(tmp_path, comparisons=1, blocks=2), Watch()
    watch.raise_after = 2  # both variants of the first block
    with pytest.raises(RuntimeError, match="stopped here"):
        run(planned, places, watch)
    assert kept.read(places.keep, "aa").comparisons == ()
    code, _ = run(planned, places, watch)
    assert (code, watch.begun, watch.trials) == (0, [False, True], 4)
    (matches,) = kept.read(places.keep, "aa").comparisons
    assert matches.blocks == 2


def test_no_experiment_is_begun_when_the_time_is_up(tmp_path: Path, places: Places) -> None:
    watch = Watch()
    messages: list[Progress] = []
    code = campaign.run(
        plan(tmp_path, comparisons=2), places, watch, tell=messages.append, until=0.0
    )
    assert (code, messages, watch.begun) == (0, [], [])


def test_an_experiment_of_which_nothing_counts_ends_the_campaign(
    tmp_path: Path, places: Places
) -> None:
    planned = plan(tmp_path, comparisons=1)
    planned[0].document["limits"] = {"max_discarded": 0}  # type: ignore[index]
    for variant in planned[0].document["variants"].values():
        variant["env"] = {"FAKE_MISSES": "7"}
    with pytest.raises(TrialError, match="evidence-aa-ephemeral-001: no block counts: "):
        run(planned, places, Watch())
