from __future__ import annotations

import dataclasses

import pytest

from perfrunner.errors import TrialError
from perfrunner.measure.memory import Sample, fragmentation, memory_metrics
from perfrunner.spec.metrics import METRICS

BASE = Sample(
    t=0.0, rss=1100, pss=1000, pss_file=80, lazyfree=100, anon_huge=64, vsz=9000, stacks_vsz=1000, cpu_s=0.0, threads=2,
    stat={"mem_used": 700.0, "total_heap_bytes": 1400.0, "total_metadata_bytes": 30.0},
)  # fmt: skip


def sample(**changes: object) -> Sample:
    return dataclasses.replace(BASE, **changes)  # type: ignore[arg-type]


def test_both_formulas_on_a_worked_example() -> None:
    run = [sample(rss=600), sample(rss=1600)]  # Rss - LazyFree: 500, 1500
    now = sample(rss=1100)  # 1000
    settled = sample(rss=900, stat={"mem_used": 600.0})  # 800
    metrics = memory_metrics(run, now, settled)
    assert metrics["fragmentation_mapped"] == pytest.approx(100 * (1 - 700 / 1400))
    # p99 of 500, 1000, 1500 by linear interpolation
    assert metrics["rss_bytes"] == pytest.approx(1490)
    assert metrics["fragmentation_rss"] == pytest.approx(100 * (1 - 700 / 1490))
    assert metrics["fragmentation_rss_now"] == pytest.approx(100 * (1 - 700 / 1000))
    assert metrics["fragmentation_rss_settled"] == pytest.approx(100 * (1 - 600 / 800))


def test_lazily_freed_pages_are_not_rss_and_plain_rss_is_kept_next_to_it() -> None:
    metrics = memory_metrics([BASE], BASE, BASE)
    assert metrics["rss_bytes"] == 1000
    assert metrics["rss_plain_bytes"] == 1100


def test_vsz_is_without_thread_stacks() -> None:
    assert memory_metrics([BASE], BASE, BASE)["vsz_bytes"] == 8000


def test_pss_leaves_out_files_which_other_variants_and_the_load_tools_share() -> None:
    """Two engines that hold the same memory: the file of one is run by nobody else, the other's by four processes."""
    alone = sample(pss=1000, pss_file=100)
    shared = sample(pss=925, pss_file=25)
    (single, other) = (memory_metrics([s], s, s)["pss_bytes"] for s in (alone, shared))
    assert single == other == 900


def test_pss_is_absent_where_its_files_are_not_reported() -> None:
    older = sample(pss_file=None)
    assert "pss_bytes" not in memory_metrics([older], older, older)


def test_what_the_allocator_does_not_give_is_absent_and_not_zero() -> None:
    system = sample(stat={"mem_used": 700.0})
    metrics = memory_metrics([system], system, system)
    for name in ("mapped_bytes", "fragmentation_mapped", "metadata_bytes", "metadata_thp_pages"):
        assert name not in metrics
    assert "fragmentation_rss" in metrics


def test_what_the_allocator_holds_is_parted_by_cause() -> None:
    """Slots that are free in pages in use; what is resident next to those pages; address space alone."""
    messages = {
        "total_allocated_bytes": 800.0, "total_active_bytes": 1000.0, "total_fragmentation_bytes": 200.0,
        "total_resident_bytes": 1060.0, "total_retained_bytes": 5000.0,
    }  # fmt: skip
    jemalloc = sample(stat={**BASE.stat, **messages})
    metrics = memory_metrics([BASE], jemalloc, BASE)  # of the end of the load, not of the settled
    assert metrics["allocator_frag_bytes"] == 200
    assert metrics["allocator_rss_bytes"] == 60
    assert metrics["retained_bytes"] == 5000
    half = sample(stat={**BASE.stat, "total_active_bytes": 1000.0})
    assert "allocator_rss_bytes" not in memory_metrics([BASE], half, BASE)


def test_no_sample_of_the_run_is_an_error() -> None:
    with pytest.raises(TrialError, match="no sample"):
        memory_metrics([], BASE, BASE)


def test_no_mem_used_is_an_error() -> None:
    with pytest.raises(TrialError, match="mem_used"):
        memory_metrics([BASE], sample(stat={}), BASE)


def test_less_used_than_stored_is_an_error() -> None:
    wrong = with_payload(stat={"mem_used": 0.0, "ep_kv_size": 500.0})
    with pytest.raises(TrialError, match=r"mem_used 0 for a payload of 500 bytes"):
        memory_metrics([wrong], now=wrong, settled=wrong)


def test_fragmentation_may_be_negative_but_never_of_nothing() -> None:
    assert fragmentation(120, 100) == pytest.approx(-20)
    with pytest.raises(TrialError):
        fragmentation(1, 0)


def with_payload(**changes: object) -> Sample:
    stat = {"mem_used": 700.0, "ep_kv_size": 500.0, "total_heap_bytes": 1400.0}
    return sample(**{"stat": stat, **changes})


def test_payload_over_the_same_memory() -> None:
    """What was asked for does not depend on how an allocator rounds: so only this compares allocators."""
    metrics = memory_metrics([with_payload(rss=1600)], with_payload(), with_payload(rss=900))
    rss = metrics["rss_bytes"]
    assert metrics["payload_bytes"] == 500
    assert metrics["fragmentation_payload_rss"] == pytest.approx(100 * (1 - 500 / rss))
    assert metrics["fragmentation_payload_rss_now"] == pytest.approx(50.0)
    assert metrics["fragmentation_payload_rss_settled"] == pytest.approx(100 * (1 - 500 / 800))
    assert metrics["fragmentation_payload_mapped"] == pytest.approx(100 * (1 - 500 / 1400))


def test_an_allocator_that_rounds_up_more_is_not_better_for_it() -> None:
    """glibc and jemalloc with the same documents: 8.8 % more RSS was reported as 1.9 points less fragmentation."""
    lean = memory_metrics([with_payload()], with_payload(), with_payload())
    stat = {"mem_used": 784.0, "ep_kv_size": 500.0, "total_heap_bytes": 1523.0}
    fat = with_payload(rss=1188, stat=stat)  # RSS 8.8 % larger
    rounded = memory_metrics([fat], fat, fat)
    assert rounded["fragmentation_rss"] < lean["fragmentation_rss"]
    assert rounded["fragmentation_payload_rss"] > lean["fragmentation_payload_rss"]


def test_plain_rss_and_virtual_memory_have_formulas_of_their_own() -> None:
    metrics = memory_metrics([BASE], BASE, BASE)
    assert metrics["fragmentation_rss_plain"] == pytest.approx(100 * (1 - 700 / 1100))
    assert metrics["fragmentation_vsz"] == pytest.approx(100 * (1 - 700 / 8000))


def test_the_stores_memory_is_taken_off_where_there_is_a_store() -> None:
    stat = {"mem_used": 300.0, "total_heap_bytes": 1400.0, "ep_store_memory": 400.0}
    bucket = sample(stat=stat)
    metrics = memory_metrics([bucket], bucket, bucket)
    assert metrics["store_bytes"] == 400
    assert metrics["fragmentation_rss_now_no_store"] == pytest.approx(50.0)
    assert metrics["fragmentation_mapped_no_store"] == pytest.approx(70.0)
    assert metrics["fragmentation_rss_now"] == pytest.approx(70.0)
    without = memory_metrics([BASE], BASE, BASE)
    assert not [name for name in without if "store" in name]


def test_every_figure_of_memory_is_a_metric() -> None:
    """An unknown name would be shown as numbers without a verdict."""
    full = with_payload(
        stat={
            **BASE.stat, "ep_kv_size": 500.0, "ep_store_memory": 400.0, "total_metadata_thp": 2.0,
            "total_active_bytes": 1000.0, "total_resident_bytes": 1060.0, "total_retained_bytes": 9.0,
            "total_fragmentation_bytes": 200.0,
        }
    )  # fmt: skip
    results = memory_metrics([full], full, full)
    assert [name for name in results if name not in METRICS] == []
    assert [m for m in METRICS if m.startswith("fragmentation") and m not in results] == []
