"""The search in a scratch repository of 20 commits, with comparisons that are played."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "sources"))  # importlib mode

from scratch_repo import Repo, make_repo

from perfrunner.bisect.search import BisectState, Measured, Search
from perfrunner.errors import PerfrunnerError, StoreError, UsageError
from perfrunner.sources.git import Repository

SLOWER = 0.97


class Played:
    """From `culprit` on the engine makes 3 % fewer operations; what `broken` holds does not build."""

    def __init__(self, commits: list[str], culprit: int, broken=(), width: float = 0.004) -> None:
        self.commits, self.culprit, self.broken, self.width = commits, culprit, broken, width
        self.asked: list[tuple[int, int | None]] = []

    def __call__(self, commit: str, blocks: int | None) -> Measured:
        place = self.commits.index(commit)
        self.asked.append((place, blocks))
        if place in self.broken:
            return Measured(why="it does not build")
        ratio = SLOWER if place >= self.culprit else 1.0
        half = self.width / (2 if blocks else 1)
        verdict = "worse" if ratio < 1 else "same"
        return Measured(
            "", "ratio", ratio, ratio - half, ratio + half, verdict, blocks or 10, f"e-{place}"
        )


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> tuple[Repo, list[str]]:
    """Twenty commits that touch the engine, every other one followed by one that does not."""
    repo = make_repo(tmp_path_factory.mktemp("history") / "repo")
    commits = [repo.git("rev-parse", "main").strip()]
    for number in range(1, 21):
        repo.write(main_cc=f"{number}\n")
        commits.append(repo.commit(f"change {number}"))
        if number % 2:
            (repo.top / "notes.txt").write_text(f"{number}\n")
            repo.commit("notes")
    return repo, commits


def searching(history, played, state: BisectState | None = None, keep=lambda: None) -> Search:
    repo, commits = history
    repository = Repository.around(repo.engine)
    assert repository is not None
    state = state or BisectState("s", "ops_per_s", commits[0], commits[-1])
    return Search(repository, state, played, keep)


@pytest.mark.parametrize("culprit", [1, 2, 7, 11, 19, 20])
def test_the_injected_commit_is_found_in_a_few_steps(history, culprit: int) -> None:
    played = Played(history[1], culprit)
    search = searching(history, played)
    steps = list(search.run())
    assert search.culprits() == [history[1][culprit]]
    assert steps[0].commit == history[1][20]
    assert len(steps) <= 1 + 5
    assert len(played.asked) == len({place for place, _ in played.asked}), "each commit once"
    assert search.left() == 0


def test_what_does_not_build_is_skipped(history) -> None:
    search = searching(history, Played(history[1], 11, broken=(9, 10, 12)))
    steps = list(search.run())
    assert "skip" in {s.outcome for s in steps}
    assert {s.why for s in steps if s.outcome == "skip"} == {"it does not build"}
    assert set(search.culprits()) == {history[1][n] for n in (9, 10, 11)} or search.culprits() == [
        history[1][11]
    ]


def test_skips_that_hide_the_culprit_are_all_named(history) -> None:
    search = searching(history, Played(history[1], 11, broken=(10, 11)))
    list(search.run())
    assert sorted(search.culprits()) == sorted(history[1][n] for n in (10, 11, 12))


def test_an_improvement_is_found_as_well(history) -> None:
    played = Played(history[1], 6)

    def faster(commit: str, blocks: int | None) -> Measured:
        got = played(commit, blocks)
        if got.verdict == "worse":
            return Measured("", "ratio", 1.03, 1.025, 1.035, "better", 10)
        return got

    search = searching(history, faster)
    list(search.run())
    assert search.culprits() == [history[1][6]]


def test_an_interval_that_does_not_tell_is_measured_longer_then_skipped(history) -> None:
    wide = Played(history[1], 11, width=0.02)
    search = searching(history, wide)
    list(search.run())
    assert {blocks for _, blocks in wide.asked} == {None, 20}, "twice the blocks told it"
    assert search.culprits() == [history[1][11]]
    hopeless = Played(history[1], 11, width=0.2)
    search = searching(history, hopeless)
    steps = list(search.run())
    assert {s.outcome for s in steps[1:]} == {"skip"}
    assert "contains half of the change" in steps[1].why
    assert len(search.culprits()) == 20


def test_a_step_takes_no_more_blocks_than_tell_the_change(history) -> None:
    """Known to a quarter of 3 %: from ten blocks that gave 0.4 %, six are enough, from some that gave 0.9 % all ten."""
    for width, blocks in ((0.004, 6), (0.009, None)):
        played = Played(history[1], 11, width=width)
        list(searching(history, played).run())
        assert played.asked[0][1] is None, "what is looked for is measured as the spec says"
        assert {blocks for _, blocks in played.asked[1:]} == {blocks}


def test_a_killed_search_goes_on_where_it_was(history, tmp_path: Path) -> None:
    class Killed(BaseException):
        pass

    path = tmp_path / "state.json"
    _, commits = history
    state = BisectState("s", "ops_per_s", commits[0], commits[-1])
    asked: list[int] = []
    lives = 0
    while True:
        lives += 1
        played = Played(commits, 7)

        def measure(commit: str, blocks: int | None, played=played) -> Measured:
            if len(played.asked) == 2:
                raise Killed
            return played(commit, blocks)

        search = searching(history, measure, state, keep=lambda state=state: state.save(path))
        try:
            list(search.run())
        except Killed:
            loaded = BisectState.load(path)
            assert loaded is not None
            state = loaded
        asked += [place for place, _ in played.asked]
        if search.left() == 0:
            break
    assert lives > 1
    assert search.culprits() == [commits[7]]
    assert len(asked) == len(set(asked)), "nothing that was kept is measured again"


class TestRefused:
    def test_ends_that_do_not_differ(self, history) -> None:
        search = searching(history, Played(history[1], 99))
        with pytest.raises(PerfrunnerError, match=r"no change of .*: same"):
            list(search.run())
        assert search.state.steps[0].outcome == "skip"

    def test_a_bad_end_that_does_not_build(self, history) -> None:
        with pytest.raises(PerfrunnerError, match="it does not build"):
            list(searching(history, Played(history[1], 3, broken=(20,))).run())

    def test_ends_in_the_wrong_order(self, history) -> None:
        _, commits = history
        state = BisectState("s", "m", commits[20], commits[0])
        with pytest.raises(UsageError, match="is not an ancestor of"):
            list(searching(history, Played(commits, 3), state).run())

    def test_one_commit(self, history) -> None:
        _, commits = history
        state = BisectState("s", "m", commits[3], commits[3])
        with pytest.raises(UsageError, match="are the same commit"):
            list(searching(history, Played(commits, 3), state).run())

    def test_a_broken_state(self, tmp_path: Path) -> None:
        (tmp_path / "s.json").write_text("{")
        with pytest.raises(StoreError, match="cannot be read"):
            BisectState.load(tmp_path / "s.json")
        assert BisectState.load(tmp_path / "none.json") is None


def test_a_change_that_was_just_visible_is_measured_again_before_it_divides_the_commits(
    history,
) -> None:
    """The true loss is 1 %, the first measurement finds 3 %: half of that would make every commit good."""
    commits = history[1]
    asked = []

    def measure(commit: str, blocks: int | None) -> Measured:
        asked.append(blocks)
        if commit == commits[-1] and blocks is None:
            return Measured("", "ratio", 0.97, 0.945, 0.995, "worse", 10)
        ratio, half = 0.99 if commits.index(commit) >= 7 else 1.0, 0.004
        return Measured("", "ratio", ratio, ratio - half, ratio + half, "worse", blocks or 10)

    search = searching(history, measure)
    first, *_ = search.run()
    assert asked[:2] == [None, 20]
    assert (first.estimate, first.blocks) == (0.99, 20)
    assert search.culprits() == [commits[7]]
