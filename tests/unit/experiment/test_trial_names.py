"""Where a trial lies on the hosts."""

from __future__ import annotations

from perfrunner.domain import TrialKey
from perfrunner.experiment.trial.placement import remote_name

VARIANTS = ("glibc", "jemalloc-5.1.0-thp", "je")


def test_the_directory_on_a_host_is_as_long_for_every_variant():
    """Its path is in the engine's heap: an A/A of `x` and `x-again` had heaps of two sizes."""
    names = [remote_name(TrialKey(1, 1, 1, "pf", "persistent", v), VARIANTS) for v in VARIANTS]
    assert len({len(name) for name in names}) == 1
    assert len(set(names)) == len(VARIANTS)


def test_redone_blocks_and_further_groups_keep_names_of_their_own():
    tasks = [TrialKey(1, n, 1, "pf", "-", "je", group=e) for n in (1, 2) for e in (1, 2)]
    assert len({remote_name(task, VARIANTS) for task in tasks}) == 4


def test_the_directory_on_a_host_has_no_characters_that_separate_values():
    """`-o ext_path={dir}/ext:64m` of memcached ended at the comma of a variant's name."""
    names = ("a=1,b", "a+1.b", "longer")
    made = [remote_name(TrialKey(1, 1, 1, "pf", "-", v), names) for v in names]
    assert [name.rstrip("_") for name in made] == ["1-pf---a_1_b", "1-pf---a_1.b", "1-pf---longer"]
    alike = ("a=1", "a,1")
    made = [remote_name(TrialKey(1, 1, 1, "pf", "-", v), alike) for v in alike]
    assert len(set(made)) == 2
    assert len({len(name) for name in made}) == 1
