"""The files that `perfrunner nightly` keeps between nights, below the results directory."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfrunner.cli import options
from perfrunner.cli.output import note
from perfrunner.paths import lock

if TYPE_CHECKING:
    from perfrunner.results import ResultStore

NIGHTLY = "nightly"
# The second line of the lock file, once a later night has reported that it yields.
REPORTED = b"reported\n"
EVER = datetime.min.replace(tzinfo=timezone.utc)


@dataclass(frozen=True)
class Before:
    """The state of a spec after a night.

    `failed` says why its run failed, or is empty. `reported_at` is the start of the newest run whose
    changes were printed, or None if none were printed yet; an older state.json has it as `told`.
    """

    failed: str = ""
    reported_at: datetime | None = None


@dataclass(frozen=True)
class Place:
    """The directory nightly/ with reports/, logs/, trend.html and state.json."""

    out: Path

    @property
    def reports(self) -> Path:
        return self.out / NIGHTLY / "reports"

    @property
    def logs(self) -> Path:
        return self.out / NIGHTLY / "logs"

    @property
    def trend(self) -> Path:
        return self.out / NIGHTLY / "trend.html"

    @property
    def state_file(self) -> Path:
        return self.out / NIGHTLY / "state.json"

    def make(self) -> None:
        for directory in (self.reports, self.logs):
            directory.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def alone(self) -> Iterator[str | None]:
        """Hold the directory against other nights, for as long as the block lasts.

        Yields None, or, if an earlier night still runs, its description: the first time it is asked for, and an
        empty string afterwards. The kernel drops the lock when its process ends.
        """
        path = self.out / NIGHTLY / "lock"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            if lock(fd, path):
                os.ftruncate(fd, 0)
                since = datetime.now(timezone.utc)
                os.pwrite(fd, f"pid {os.getpid()}, since {since:%Y-%m-%d %H:%M} UTC\n".encode(), 0)
                yield None
            else:
                holder, _, reported = os.pread(fd, 1000, 0).decode(errors="replace").partition("\n")
                if not reported:
                    os.pwrite(fd, REPORTED, len(holder.encode()) + 1)
                yield "" if reported else holder
        finally:
            os.close(fd)

    def state(self) -> Mapping[str, Before] | None:
        """Return what the last night left, by spec; None if the file is there and cannot be read."""
        try:
            document = json.loads(self.state_file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError):
            return None
        return (
            {str(k): _before(v) for k, v in document.items()}
            if isinstance(document, dict)
            else None
        )

    def save(self, state: Mapping[str, Before]) -> None:
        """Write the state of each spec. Raises StoreError."""
        from perfrunner.results.files import write_whole

        document = {name: _document(before) for name, before in state.items()}
        write_whole(self.state_file, (json.dumps(document, indent=1) + "\n").encode())

    def keep_newest(self, spec: str, most: int) -> None:
        """Remove all but the newest reports and logs of a spec; their names end with the time.

        Those of other specs, whose name may begin with this one, are left alone.
        """
        for directory, suffix in ((self.reports, ".html"), (self.logs, ".log")):
            own = re.compile(rf"{re.escape(spec)}-\d{{8}}-\d{{6}}(-\d{{6}})?{re.escape(suffix)}")
            named = sorted(path for path in directory.iterdir() if own.fullmatch(path.name))
            for old in named[:-most]:
                old.unlink(missing_ok=True)


def _before(value: Any) -> Before:
    """Read the state of a spec; older versions stored only the reason of a failure."""
    if not isinstance(value, dict):
        return Before(str(value))
    reported_at = None
    if (text := value.get("reported_at", value.get("told"))) is not None:
        try:
            reported_at = datetime.fromisoformat(str(text)).astimezone(timezone.utc)
        except ValueError:
            reported_at = EVER  # damaged: repeat news rather than lose them
    return Before(str(value.get("failed", "")), reported_at)


def _document(before: Before) -> dict[str, str | None]:
    reported_at = None if before.reported_at is None else before.reported_at.isoformat()
    return {"failed": before.failed, "reported_at": reported_at}


def read_results(out: Path, read: Callable[[ResultStore], Any]) -> Any:
    """Call `read` with the store; return None if there is no store yet."""
    if not options.has_store(out):
        return None
    with options.open_results(out, create=options.store_url() is not None) as store:
        return read(store)


def reported_until(out: Path, name: str, last: Before, began: datetime) -> datetime:
    """Return when the newest run of a spec started whose changes are no longer news: at most the newest stored one.

    A run that is dated after tonight, by a wrong clock, hides all changes until then; note how to remove it.
    """

    def newest_run(store: ResultStore) -> tuple[datetime, str]:
        done = [(r.created_at, r.id) for r in store.own() if r.name == name and r.state == "done"]
        return max(done, default=(EVER, ""))

    newest, run = read_results(out, newest_run) or (EVER, "")
    if newest > began:
        note(
            f"{name}: {run} is dated later than tonight, so changes of tonight do not show: correct the clock,"
            f" or remove the run with `perfrunner clean --results {run}`"
        )
    return min(last.reported_at or newest, newest)
