"""A job: one spec on one group, as the words that a driver calls `perfrunner run` with."""

from __future__ import annotations

import dataclasses
import secrets
from dataclasses import dataclass
from datetime import date, datetime, timezone
from typing import Any

from perfrunner.fleet.file import NORMAL_PRIORITY


@dataclass(frozen=True)
class Job:
    """Paths are absolute: a driver works in other directories, perhaps on another machine that shares them.

    `measured` are the options that say what is measured: a run that goes on has them already. `always` are the others.
    """

    id: str
    name: str  # of the spec
    spec: str
    group: str
    cluster: str
    out: str
    directory: str  # where it was submitted: what relative paths in options start from
    measured: tuple[str, ...] = ()
    always: tuple[str, ...] = ()
    priority: int = NORMAL_PRIORITY  # a lower one runs first
    night: str | None = None
    store: str | None = None  # URL; none: in `out`

    def first_words(self) -> list[str]:
        """Of the call that begins the run."""
        words = ["run", self.spec, "--cluster", self.cluster, *self.measured]
        return [*words, "--out", self.out, *self.always]

    def words_again(self, experiment: str) -> list[str]:
        """Of a call that goes on with it, whatever became of the spec since."""
        return ["run", "--resume", experiment, "--out", self.out, *self.always]

    def document(self) -> dict[str, Any]:
        """As JSON; `job_of` reads it."""
        return dataclasses.asdict(self)


def job_of(document: dict[str, Any]) -> Job:
    """A job of this or an older perfrunner; fields of a newer one are left out."""
    known = {field.name for field in dataclasses.fields(Job)}
    values = {key: value for key, value in document.items() if key in known}
    for words in ("measured", "always"):
        values[words] = tuple(values.get(words, ()))
    return Job(**values)


def fresh_id(name: str, group: str) -> str:
    """Of a job that somebody submits; two at the same moment differ."""
    now = datetime.now(timezone.utc)
    return f"{name}-{group}-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def night_id(name: str, group: str, night: date) -> str:
    """The same for every try to submit the night's job."""
    return f"{name}-{group}-night-{night:%Y%m%d}"
