"""Check that the reason of a failed trial names its cause, and only once."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from perfrunner.errors import TrialError
from perfrunner.experiment.trial.outcome import attribute_by_report
from perfrunner.experiment.trial.sampling import NodesSampling, Sampler
from perfrunner.experiment.trial.server import ServerError
from perfrunner.hosts.process import Completed, ExitStatus


class Host:
    """A host with files."""

    name = "here"

    def __init__(self, **files: str) -> None:
        self._files = files

    def exists(self, path: str) -> bool:
        return path in self._files

    def read_text(self, path: str) -> str:
        return self._files[path]

    def get_file(self, remote: str, local: object) -> None:
        """Fetch nothing."""

    def run(self, argv: list[str], **_: object) -> Completed:
        return Completed(tuple(argv), 0, self._files.get(argv[-1].rpartition("/")[2], ""), "")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("it answered no", "pillowfight failed (exit 1): it answered no"),
        ("refused", "pillowfight failed (exit 1): it answered no (refused)"),
        ("", "pillowfight failed (exit 1): it answered no"),
    ],
)
def test_a_message_of_the_report_that_the_log_has_is_not_repeated(message: str, reason: str):
    host = Host(report=json.dumps({"failed_variant": 1, "failure": message}))
    error = TrialError("pillowfight failed (exit 1): it answered no")
    assert str(attribute_by_report(cast(Any, host), "report", 2, error)) == reason


def test_a_sampler_that_ends_early_says_why(tmp_path: Any):
    host = Host(**{"sampler-s.out": '{"error": "ERR max number of clients reached"}\n'})
    handle = SimpleNamespace(stop=lambda _: SimpleNamespace(status=ExitStatus(code=1)))
    engine = SimpleNamespace(
        host=host, title="redis on here", setup=SimpleNamespace(directory="trial")
    )
    nothing = SimpleNamespace(stop=lambda *_: None)
    bench = SimpleNamespace(
        profiler=None, trial=SimpleNamespace(recorder=nothing, directory=tmp_path),
        forget=lambda _: None, check_engines=lambda: None,
    )  # fmt: skip
    sampler = Sampler(cast(Any, engine), cast(Any, handle), "s", "trial/s.jsonl")
    with pytest.raises(
        ServerError, match=r"redis on here ended early \(exit 1\): ERR max"
    ) as ended:
        NodesSampling(cast(Any, bench), [sampler]).stop()
    assert ended.value.server is cast(Any, engine), "no other variant of the group fails for it"
