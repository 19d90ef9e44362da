from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from perfrunner.errors import TrialError
from perfrunner.measure.memory import Sample, add_nodes, numbers, parse_samples


def line(**changes: Any) -> str:
    document = {
        "t": 1.5, "rss": 1000, "pss": 900, "pss_file": 50, "lazyfree": 100, "anon_huge": 0, "vsz": 5000,
        "stacks_vsz": 700, "cpu_user_s": 1.25, "cpu_sys_s": 0.25, "threads": 4,
        "stat": {"mem_used": "600", "name": "je"},
    }  # fmt: skip
    return json.dumps({**document, **changes})


def single(**changes: Any) -> Sample:
    return parse_samples(line(**changes) + "\n", "s")[0]


def test_a_sample_is_read_and_rss_leaves_out_what_was_lazily_freed() -> None:
    sample = single()
    assert sample.rss_true == 900
    assert sample.cpu_s == 1.5
    assert sample.stat == {"mem_used": 600.0}


def test_a_torn_last_line_is_left_out() -> None:
    text = f"{line()}\n{line(t=2.5)}\n" + line(t=3.5)[:40]
    assert [sample.t for sample in parse_samples(text, "s")] == [1.5, 2.5]


def test_a_whole_last_line_without_its_newline_counts() -> None:
    assert len(parse_samples(f"{line()}\n{line()}", "s")) == 2


def test_a_hole_in_the_middle_is_an_error_with_its_place() -> None:
    with pytest.raises(TrialError, match=r"samples\.jsonl:2: not a sample"):
        parse_samples(f'{line()}\n{{"t": 1}}\n{line()}\n', "samples.jsonl")


def test_figures_that_are_no_numbers_are_left_out_never_zero() -> None:
    assert numbers({"a": "1", "b": "jemalloc", "c": None}) == {"a": 1.0}


def test_nodes_add_up_and_a_figure_that_one_lacks_is_lacking() -> None:
    with_mapped = single(stat={"mem_used": 600, "total_heap_bytes": 900})
    total = add_nodes([with_mapped, single(rss=3000, stacks_vsz=None, pss_file=None)])
    assert total.rss == 4000
    assert total.rss_true == 3800
    assert total.stat == {"mem_used": 1200.0}
    assert total.stacks_vsz is None
    assert total.pss_file is None


def test_load_tools_of_an_older_revision_do_not_tell_the_files_of_pss() -> None:
    document = json.loads(line())
    del document["pss_file"]
    (sample,) = parse_samples(json.dumps(document), "s")
    assert sample.pss_file is None


def test_one_node_is_itself() -> None:
    assert dataclasses.asdict(add_nodes([single()])) == dataclasses.asdict(single())
