"""`perfrunner nightly`: run specs, look at their histories, say what changed. For cron, through `scripts/nightly`."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfrunner.cli import options
from perfrunner.cli.report import PAGE
from perfrunner.errors import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_USAGE,
    EXIT_VERDICT,
    PerfrunnerError,
)
from perfrunner.run.command import PERFRUNNER, last_words, with_store

if TYPE_CHECKING:
    from perfrunner.analysis.history import History
    from perfrunner.report.mail import SpecNight
    from perfrunner.results import ExperimentRecord, ResultStore

NIGHTLY = "nightly"  # below the results directory: reports/, logs/, trend.html, state.json
LOG_LINES = 12  # of a run that failed, in the mail


@click.command(
    "nightly",
    short_help="Run specs every night; print only what changed.",
    epilog="\b\nExamples:\n  perfrunner nightly specs/experiments/quickstart.yaml --out /var/lib/perfrunner"
    "\n  perfrunner nightly a.yaml b.yaml --keep 60     reports of the last 60 nights of each"
    "\n  perfrunner nightly a.yaml --site public/       and renew the site over all that is stored"
    "\n\nPrints a mail (subject first, at most 40 lines) when a level is newly known to have changed, a run began to"
    "\nfail, or runs again; nothing otherwise. Exit codes: 0, 1 a level turned worse, 3 a run failed, 130 interrupted.",
)
@click.argument(
    "specs",
    nargs=-1,
    required=True,
    metavar="SPEC...",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    help="HTML reports and logs that stay, of each spec.",
)
@click.option(
    "--site",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Also renew the site of `perfrunner site` in DIR, over all that is stored.",
)
@options.out_option
@options.cache_option
@click.pass_context
def command(
    ctx: click.Context,
    specs: tuple[Path, ...],
    keep: int,
    site: Path | None,
    out_dir: Path,
    cache_dir: Path,
) -> None:
    """Run each SPEC (going on with a run that was cut off), renew the trend page, and tell what changed."""
    from perfrunner.report.mail import mail_text
    from perfrunner.report.site import write_site
    from perfrunner.report.trend import trend_page

    place = Place(out_dir.resolve())
    place.make()
    before = place.state()
    nights: list[SpecNight] = []
    histories: dict[str, Sequence[History]] = {}
    for path in specs:
        began = datetime.now(timezone.utc)
        try:
            spec = options.read_spec(path, (), None, None)
        except PerfrunnerError as error:  # it costs its own night, not the others'
            nights.append(_unread(path.stem, error, before.get(path.stem, "")))
            histories[path.stem] = _histories(place.out, path.stem)
            continue
        log = place.logs / f"{spec.name}-{began:%Y%m%d-%H%M%S-%f}.log"
        code = run_spec(path, place.out, cache_dir, log, resume=_was_cut(place.out, spec.name))
        if code == EXIT_INTERRUPTED:
            ctx.exit(code)
        night, found = _told(place, spec.name, code, log, began, before.get(spec.name, ""))
        nights.append(night)
        histories[spec.name] = found
        place.keep_newest(spec.name, keep)
    made = f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC"
    place.trend.write_text(trend_page(histories, made), encoding="utf-8")
    place.save({**before, **{night.name: night.failed for night in nights}})
    click.echo(mail_text(nights, str(place.trend)), nl=False)
    if site is not None:  # last: a directory that cannot be written takes no news with it
        _with_store(place.out, lambda _: write_site([place.out], site))
    if any(night.failed for night in nights):
        ctx.exit(EXIT_FAILED)
    ctx.exit(EXIT_VERDICT if any(night.worse for night in nights) else EXIT_OK)


@dataclass(frozen=True)
class Place:
    """What is kept between the nights, in the results directory."""

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
    def _state(self) -> Path:
        return self.out / NIGHTLY / "state.json"

    def make(self) -> None:
        for directory in (self.reports, self.logs):
            directory.mkdir(parents=True, exist_ok=True)

    def state(self) -> Mapping[str, str]:
        """By spec why its last run failed; empty where it did not. A file that cannot be read is none."""
        try:
            found = json.loads(self._state.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}

    def save(self, state: Mapping[str, str]) -> None:
        fresh = self._state.with_suffix(".new")
        fresh.write_text(json.dumps(state, indent=1) + "\n", encoding="utf-8")
        fresh.replace(self._state)

    def keep_newest(self, spec: str, most: int) -> None:
        """Of the reports and logs of a spec; names end with the time."""
        for directory, suffix in ((self.reports, ".html"), (self.logs, ".log")):
            named = sorted(directory.glob(f"{spec}-[0-9]*-[0-9]*{suffix}"))
            for old in named[:-most]:
                old.unlink(missing_ok=True)


def run_spec(path: Path, out: Path, cache: Path, log: Path, *, resume: bool) -> int:
    """The exit code of `perfrunner run`; what it printed is in `log`. What cannot be gone on with is begun anew."""
    words = ["run", str(path.resolve()), "--out", str(out), "--cache", str(cache), "--quiet"]
    code = _perfrunner([*words, "--resume"], log) if resume else EXIT_USAGE
    return _perfrunner(words, log) if code == EXIT_USAGE else code


def _perfrunner(words: Sequence[str], log: Path) -> int:
    with log.open("ab") as out:
        out.write((" ".join(["$ perfrunner", *words]) + "\n").encode())
        out.flush()
        return subprocess.run(
            [*PERFRUNNER, *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            check=False,
            env=with_store(os.environ, options.store_url()),
        ).returncode


def _was_cut(out: Path, spec: str) -> bool:
    """Whether the newest run was cut off. One that failed is not gone on with: its source may be to blame."""
    newest = _with_store(out, lambda store: store.latest(spec))
    return newest is not None and newest.state in ("running", "interrupted")


def _told(
    place: Place, name: str, code: int, log: Path, began: datetime, before: str
) -> tuple[SpecNight, Sequence[History]]:
    from perfrunner.report.history import history_text
    from perfrunner.report.mail import SpecNight
    from perfrunner.report.redact import hidden

    record = _with_store(place.out, lambda store: store.latest(name))
    found = _histories(place.out, name)
    report = _kept_report(place, record, began)
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:]
    tail = tuple(hidden(line, record) for line in lines)  # for a mail
    failed = "" if code == EXIT_OK else f"exit code {code}: {last_words(tail)}"
    ran = record is not None and code == EXIT_OK
    news = [a for one in found if record is not None and one.newest == record.id for a in one.news]
    changed = {(a.metric.id, a.variant) for a in news}
    details = [
        line
        for one in found
        for series in one.series
        if (series.metric.id, series.variant) in changed
        for line in history_text([_only(one, series)]).splitlines()
    ]
    night = SpecNight(
        name=name,
        failed=failed,
        before=before,
        log=tail,
        news=tuple(str(alarm) for alarm in news) if ran else (),
        worse=ran and any(alarm.turn == "worse" for alarm in news),
        report=report,
        details=tuple(details) if ran else (),
    )
    return night, found


def _unread(name: str, error: PerfrunnerError, before: str) -> SpecNight:
    from perfrunner.report.mail import SpecNight

    lines = error.message.splitlines()
    why = f"exit code {error.exit_code}: {lines[0]}"
    return SpecNight(name=name, failed=why, before=before, log=tuple(lines[:LOG_LINES]))


def _only(one: History, series: object) -> History:
    from dataclasses import replace

    return replace(one, series=tuple(s for s in one.series if s is series))


def _histories(out: Path, name: str) -> Sequence[History]:
    from perfrunner.analysis.history import history
    from perfrunner.analysis.nights import nights, primary_metrics
    from perfrunner.analysis.noise import is_aa
    from perfrunner.report.redact import redacted_nights

    def read(store: ResultStore) -> Sequence[History]:
        runs = [
            s
            for s in store.list()
            if s.experiment.name == name and not is_aa(s.experiment.spec_json)
            if store.is_own(s.experiment.id)
        ]
        if not runs:
            return []
        metrics = primary_metrics(runs[-1].experiment)
        found = redacted_nights(nights(runs, store.load, metrics, out))
        return [history(found, metric, metrics=len(metrics)) for metric in metrics]

    return _with_store(out, read) or []


def _with_store(out: Path, read: Callable[[ResultStore], Any]) -> Any:
    """None where nothing was ever stored."""
    if options.store_url() is None and not (out / "results.sqlite").is_file():
        return None
    with options.open_results(out, create=options.store_url() is not None) as store:
        return read(store)


def _kept_report(place: Place, record: ExperimentRecord | None, began: datetime) -> str:
    """The page of tonight's run, copied to where the nights' reports are; empty where there is none."""
    page = None if record is None else place.out / record.id / PAGE
    if record is None or page is None or not page.is_file():
        return ""
    kept = place.reports / f"{record.name}-{began:%Y%m%d-%H%M%S-%f}.html"
    kept.write_bytes(page.read_bytes())
    return str(kept)
