"""`perfrunner nightly`: run specs, look at their histories, say what changed. For cron, through `scripts/nightly`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfrunner.cli import options
from perfrunner.cli.nightly_place import EVER, Before, Place
from perfrunner.cli.output import abandon_stdout, note
from perfrunner.cli.report import PAGE
from perfrunner.errors import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_USAGE,
    EXIT_VERDICT,
    PerfrunnerError,
    StoreError,
)
from perfrunner.run.command import PERFRUNNER, last_words, with_store

if TYPE_CHECKING:
    from perfrunner.analysis.series import History
    from perfrunner.report.mail import SpecNight
    from perfrunner.results import ExperimentRecord, ResultStore
    from perfrunner.spec import Spec

LOG_LINES = 12  # of a run that failed, in the mail
CHECKOUT = "(checkout)"  # its key among the specs of state.json; no spec can have the name


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
    type=click.Path(path_type=Path),  # one that is gone is told like one that cannot be read
)
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    help="HTML reports and logs of each spec that stay, and builds (those used last) here and on each host.",
)
@click.option(
    "--again",
    type=click.IntRange(min=0),
    default=2,
    show_default=True,
    metavar="N",
    help="How often a spec is run once more, the same night, while a metric leans to worse and is not told yet.",
)
@click.option(
    "--site",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Also renew the site of `perfrunner site` in DIR, over all that is stored.",
)
@click.option("--unready", hidden=True, help="Of scripts/nightly: see _checkout.")
@options.out_option
@options.cache_option
@click.pass_context
def command(
    ctx: click.Context,
    specs: tuple[Path, ...],
    keep: int,
    again: int,
    site: Path | None,
    unready: str | None,
    out_dir: Path,
    cache_dir: Path,
) -> None:
    """Run each SPEC (going on with a run that was cut off), renew the trend page, and tell what changed."""
    from perfrunner.report.files import write_whole
    from perfrunner.report.mail import mail_text
    from perfrunner.report.site import write_site
    from perfrunner.report.trend import trend_page

    place = Place(out_dir.resolve())
    place.make()
    before = place.state()
    after: dict[str, Before] = {}
    nights: list[SpecNight] = []
    histories: dict[str, Sequence[History]] = {}
    ran: list[Spec] = []
    if unready is not None:
        nights.append(_checkout(unready, before.get(CHECKOUT, Before()).failed))
        after[CHECKOUT] = Before(nights[-1].failed)
    for path in specs:
        began = datetime.now(timezone.utc)
        try:
            spec = options.read_spec(path, (), None, None)
        except PerfrunnerError as error:  # it costs its own night, not the others'
            last = before.get(path.stem, Before())
            nights.append(_unread(path.stem, error, last.failed))
            histories[path.stem] = _histories(place.out, path.stem)
            after[path.stem] = Before(nights[-1].failed, last.told)
            continue
        last = before.get(spec.name, Before())
        told = last.told or _newest_run(place.out, spec.name)
        log = place.logs / f"{spec.name}-{began:%Y%m%d-%H%M%S-%f}.log"
        code, found = _measured(spec.name, path, place, cache_dir, log, again)
        if code == EXIT_INTERRUPTED:
            ctx.exit(code)  # nothing was told: the next night tells it
        night = _night(place, spec.name, code, log, began, Before(last.failed, told), found)
        nights.append(night)
        if not night.failed:
            ran.append(spec)
        histories[spec.name] = found
        after[spec.name] = Before(night.failed, max([told, *(h.newest_at or told for h in found)]))
        place.keep_newest(spec.name, keep)
    _tell(mail_text(nights, str(place.trend)))
    place.save({**before, **after})  # not before all is told; what comes now takes no news with it
    made = f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC"
    write_whole(place.trend, trend_page(histories, made).encode())
    if site is not None:
        _with_store(place.out, lambda _: write_site([place.out], site))
    _remove_old_builds(cache_dir, ran, keep)
    if any(night.failed for night in nights):
        ctx.exit(EXIT_FAILED)
    ctx.exit(EXIT_VERDICT if any(night.worse for night in nights) else EXIT_OK)


def _remove_old_builds(cache_dir: Path, specs: Sequence[Spec], keep: int) -> None:
    """Beyond the `keep` that were used last; one night's stay whatever their number. What cannot go now goes later."""
    from perfrunner.cli.clean import builds_in, leftovers_on

    keep = max(keep, sum(len(spec.variants) + 1 for spec in specs))  # 1: the load tools
    clusters = {spec.cluster.model_dump_json(): spec.cluster for spec in specs}.values()
    places = [partial(leftovers_on, cluster, keep) for cluster in clusters]
    if specs:
        places.append(partial(builds_in, cache_dir, keep))
    for targets in places:
        try:
            for target in targets():
                target.remove()
        except PerfrunnerError as error:
            note(f"old builds stay: {error.message}")


def _tell(mail: str) -> None:
    """StoreError where nobody takes it; a full disk is told by the group."""
    try:
        click.echo(mail, nl=False)
        sys.stdout.flush()
    except BrokenPipeError as error:
        abandon_stdout()
        raise StoreError(
            "nobody reads stdout, and there is something to tell", "the next night tells it"
        ) from error


def _measured(
    name: str, path: Path, place: Place, cache: Path, log: Path, again: int
) -> tuple[int, Sequence[History]]:
    """A night's run, and up to `again` more while something is suspected: the last exit code, and the histories."""
    from perfrunner.analysis.suspects import suspects

    code = run_spec(path, place.out, cache, log, resume=_was_cut(place.out, name))
    found = _histories(place.out, name)
    while code == EXIT_OK and again > 0 and (suspected := suspects(found)):
        again -= 1
        with log.open("a", encoding="utf-8") as out:
            out.write(f"{suspected[0]}: once more\n")
        code = run_spec(path, place.out, cache, log, resume=False)
        found = _histories(place.out, name)
    return code, found


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
    """Whether the newest run was cut off, or lost a host when it had measured something.

    One that failed otherwise is not gone on with: its source may be to blame.
    """
    from perfrunner.run.journal import ENDS, read_journal
    from perfrunner.run.journal import FILE as JOURNAL

    def read(store: ResultStore) -> bool:
        newest = store.latest(spec)
        if newest is None or newest.state == "done":
            return False
        if newest.state != "failed":
            return True
        ends = [e for e in read_journal(out / newest.id / JOURNAL) if e["event"] in ENDS]
        return bool(ends and ends[-1].get("host") and store.load(newest.id).trials)

    return bool(_with_store(out, read))


def _newest_run(out: Path, name: str) -> datetime:
    """When the newest finished run was begun: what is known with it is no news to whoever runs it by hand."""

    def read(store: ResultStore) -> datetime:
        done = [r.created_at for r in store.own() if r.name == name and r.state == "done"]
        return max(done, default=EVER)

    return _with_store(out, read) or EVER


def _night(
    place: Place,
    name: str,
    code: int,
    log: Path,
    began: datetime,
    before: Before,
    found: Sequence[History],
) -> SpecNight:
    """`found`: the history of each primary metric. Every alarm that became known since the last one told is news."""
    from perfrunner.report.history import history_text
    from perfrunner.report.mail import SpecNight
    from perfrunner.report.redact import hidden

    record = _with_store(place.out, lambda store: store.latest(name))
    report = _kept_report(place, record, began)
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:]
    tail = tuple(hidden(line, record) for line in lines)  # for a mail
    failed = "" if code == EXIT_OK else f"exit code {code}: {last_words(tail)}"
    news = [alarm for one in found for alarm in one.known_after(before.told or EVER)]
    changed = {(a.metric.id, a.variant) for a in news}
    details = [
        line
        for one in found
        for series in one.series
        if (series.metric.id, series.variant) in changed
        for line in history_text([_only(one, series)]).splitlines()
    ]
    return SpecNight(
        name=name,
        failed=failed,
        before=before.failed,
        log=tail,
        news=tuple(str(alarm) for alarm in news),
        anew=next(filter(None, (one.begins_anew(before.told or EVER) for one in found)), ""),
        worse=any(alarm.turn == "worse" for alarm in news),
        report=report,
        details=tuple(details),
    )


def _checkout(unready: str, before: str) -> SpecNight:
    """Told like a spec. `unready`: what `scripts/nightly` could not do before the night, its first line `what: why`;
    empty where it did all that it was asked to."""
    from perfrunner.report.mail import SpecNight

    lines = unready.splitlines()
    failed, log = "".join(lines[:1]), tuple(lines[1 : 1 + LOG_LINES])
    return SpecNight("checkout", failed=failed, before=before, log=log, cured="is up to date again")


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
