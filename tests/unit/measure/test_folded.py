"""From what perf prints to folded stacks, and back from a file."""

from __future__ import annotations

import pytest

from perfrunner.errors import TrialError
from perfrunner.measure.cpu_profile import Folded, added, fold, parse_folded

PRINTED = """\
front-end-0~
\tffffffff821f39e5 __schedule ([kernel.kallsyms])
\t           8c375 pthread_mutex_lock@@GLIBC_2.2.5 (/usr/lib/x86_64-linux-gnu/libc.so.6)
\t           127bb kv::(anonymous namespace)::take (/w/bin/kv_engine (deleted))
\t           2d6ef [unknown] (/w/lib/librocksdb.so.7.8)
\t           2d6e0 [unknown] (/w/lib/librocksdb.so.7.8)

my thread~
\t           127af kv::Map<int, std::less<int> >::operator() [clone .constprop.0] (/w/bin/kv_engine)

my thread~
\t           127b0 kv::Map<int, std::less<int> >::operator() (/w/bin/kv_engine)
\t            1000 [unknown] ([unknown])
\t            1001 nft_do_chain.part.3 ([nf_tables])
\t            1002 __vdso_gettimeofday ([vdso])

idle~

""".replace("~", " ")


def folded(text: str) -> dict[str, int]:
    return {";".join(stack): n for stack, n in fold(text.splitlines(keepends=True)).counts.items()}


def test_a_stack_is_a_thread_and_its_callers_from_the_outermost_in() -> None:
    assert folded(PRINTED) == {
        "front-end;[librocksdb.so.7.8];kv::(anonymous namespace)::take;pthread_mutex_lock;__schedule_[k]": 1,
        "my thread;kv::Map<int, std::less<int> >::operator()": 1,
        "my thread;__vdso_gettimeofday;nft_do_chain_[k];[unknown];kv::Map<int, std::less<int> >::operator()": 1,
        "idle": 1,
    }


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("front-end-1", "front-end"), ("rocksdb:low0", "rocksdb:low"), ("worker #12", "worker"),
        ("executor_3", "executor"), ("kv_engine", "kv_engine"), ("7", "7"), ("t", "t"),
        (":2850", "[unknown]"), (":-1", "[unknown]"),
    ],
)  # fmt: skip
def test_threads_of_a_kind_are_one(name: str, kind: str) -> None:
    assert folded(f"{name}\n\t 1f f (/a)\n") == {f"{kind};f": 1}


def test_equal_stacks_are_counted_and_parts_of_a_function_are_the_function() -> None:
    sample = "t\n\t 1f hot{} (/a/b)\n\n"
    text = "".join(sample.format(part) for part in ("", ".cold", ".part.0", ".isra.0.constprop.1"))
    assert folded(text) == {"t;hot": 4}
    assert folded("t\n\t 1f operator;x (/a/b)\n") == {"t;operator:x": 1}, "a frame has no semicolon"


def test_no_sample_is_no_stack() -> None:
    assert fold([]).samples == 0


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("\t 1f f (/a)\n", "line 1: expected a sample"),
        ("t\nother\n", "line 2: expected a sample"),
        ("t\n\t nonsense\n", "line 2: expected a frame"),
        ("t\n\t 1f f\n", "line 2: expected a frame"),
    ],
)
def test_what_is_no_output_of_perf_is_refused(text: str, output: str) -> None:
    with pytest.raises(TrialError, match=output):
        folded(text)


def test_a_file_of_stacks_is_read_as_it_was_written() -> None:
    profile = Folded({("a b", "f(int, char)", "g<1, 2>"): 3, ("a b",): 1})
    assert profile.text() == "a b 1\na b;f(int, char);g<1, 2> 3\n"
    assert parse_folded(profile.text(), "p") == profile
    assert profile.samples == 4
    for wrong in ("a;b\n", "a;b 1.5\n", " 3\n"):
        with pytest.raises(TrialError, match=r"p:1: expected a folded stack"):
            parse_folded(wrong, "p")


def test_several_processes_are_added() -> None:
    both = added([Folded({("a",): 1, ("b",): 2}), Folded({("a",): 4})])
    assert both.counts == {("a",): 5, ("b",): 2}
