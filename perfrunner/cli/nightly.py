"""`perfrunner nightly`: run specs, examine their histories and report changes. `scripts/nightly` calls it from cron."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, NamedTuple

import click

from perfrunner.children import PERFRUNNER, log_tail, run_child, with_store
from perfrunner.cli import options
from perfrunner.cli.nightly_place import EVER, NIGHTLY, Before, Place, read_results, reported_until
from perfrunner.cli.output import deliver, note
from perfrunner.cli.request import RunOptions, read_spec
from perfrunner.cli.run import load_now
from perfrunner.errors import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_USAGE,
    EXIT_VERDICT,
    PerfrunnerError,
)
from perfrunner.paths import PAGE, real_path

if TYPE_CHECKING:
    from perfrunner.analysis.nights import Suspicion
    from perfrunner.analysis.series import History
    from perfrunner.cli.nightly_verify import Decision, Verification
    from perfrunner.report.history import SpecNight
    from perfrunner.results import ExperimentData, ExperimentRecord, ResultStore
    from perfrunner.spec.model import Spec

# Modules that a night needs after its runs; as in cli/run.py, they are loaded before.
_NEEDED_LATER = ("build.cache", "cli.clean", "cli.nightly_verify", "report.site", "spec.pair")
LOG_LINES = 12  # of the log of a failed run, in the mail
CHECKOUT = "(checkout)"  # key of the checkout in state.json; no spec can have this name


@click.command(
    "nightly",
    epilog="\b\nExamples:\n  perfrunner nightly specs/experiments/quickstart.yaml --out /var/lib/perfrunner"
    "\n  perfrunner nightly a.yaml b.yaml --keep 60     keep the reports of 60 nights"
    "\n  perfrunner nightly a.yaml --site public/       also update the static site"
    "\n  perfrunner nightly a.yaml --notify 'mail -s \"$PERFRUNNER_SUBJECT\" team@example.org'"
    "\n\nPrints a mail (subject first, at most 40 lines) if a metric changed, or if a run started to fail or works"
    "\nagain; otherwise nothing. Exit codes: 0 no loss, 1 a metric became worse, 3 a run failed, 130 interrupted.",
)
@click.argument(
    "specs",
    nargs=-1,
    required=True,
    metavar="SPEC...",
    type=click.Path(path_type=Path),  # a missing file is reported like one that cannot be read
)
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    metavar="N",
    help="Keep the N most recent reports and logs per spec, and the N most recently used builds.",
)
@click.option(
    "--verify/--no-verify",
    default=True,
    show_default=True,
    help="If a metric looks worse, compare the last good commit with tonight's, interleaved, and report the loss"
    " only if that confirms it.",
)
@click.option(
    "--bisect", is_flag=True, help="Search for the commit of each confirmed loss (default: no)."
)
@click.option(
    "--site",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Also update the static site in DIR (see `perfrunner site`; default: no site).",
)
@click.option(
    "--notify",
    metavar="COMMAND",
    help="Pipe the mail to this shell command instead of printing it; $PERFRUNNER_SUBJECT is its subject. If the"
    " command fails, the next night reports the same changes again.",
)
@click.option("--unready", hidden=True, help="Used by scripts/nightly: see _checkout.")
@options.out_option
@options.cache_option
@click.pass_context
def command(  # noqa: PLR0913
    ctx: click.Context,
    specs: tuple[Path, ...],
    keep: int,
    verify: bool,
    bisect: bool,
    site: Path | None,
    notify: str | None,
    unready: str | None,
    out_dir: Path,
    cache_dir: Path,
) -> None:
    """Run each SPEC, or resume its interrupted run, update the trend page, and print what changed.

    Does nothing while an earlier night of the same results directory is still running.
    """
    from perfrunner.cli.nightly_verify import note_reported
    from perfrunner.report.history import mail_text, trend_page
    from perfrunner.report.site import write_site
    from perfrunner.results.files import write_whole

    load_now(_NEEDED_LATER)
    place = Place(real_path(out_dir))
    place.make()
    _yield_to_earlier(ctx, place)
    tonight = _Tonight(place, cache_dir, keep, verify=verify, bisect=bisect)
    if unready is not None:
        last = tonight.before.get(CHECKOUT, Before())
        tonight.add(CHECKOUT, _checkout(unready, last.failed))
    for path in specs:
        if tonight.run(path) == EXIT_INTERRUPTED:
            ctx.exit(EXIT_INTERRUPTED)  # nothing was reported, so the next night reports it
    deliver(mail_text(tonight.nights, str(place.trend)), notify)
    # After the mail: news that could not be printed are kept.
    note_reported(place.out / NIGHTLY, tonight.verified)
    place.save({**tonight.before, **tonight.after})
    made = f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC"
    write_whole(place.trend, trend_page(tonight.histories, made).encode())
    if site is not None:
        read_results(place.out, lambda _: write_site([place.out], site))
    _remove_old_builds(cache_dir, tonight.ran, keep)
    if any(night.failed for night in tonight.nights):
        ctx.exit(EXIT_FAILED)
    ctx.exit(EXIT_VERDICT if any(night.worse for night in tonight.nights) else EXIT_OK)


class _Tonight:
    """The specs of a night, run one by one, with what is reported and stored of them.

    `nights`: what the mail reports. `after`: what the next night has to know, by spec. `ran`: specs without a failure;
    `verified`: those whose confirmed losses are in the mail.
    """

    def __init__(
        self, place: Place, cache_dir: Path, keep: int, *, verify: bool, bisect: bool
    ) -> None:
        self.place, self.cache_dir, self.keep = place, cache_dir, keep
        self.verify, self.bisect = verify, bisect
        self.before, self.unknown = _last_night(place)
        self.after: dict[str, Before] = {}
        self.nights: list[SpecNight] = []
        self.histories: dict[str, Sequence[History]] = {}
        self.ran: list[Spec] = []
        self.verified: list[str] = []

    def add(self, name: str, night: SpecNight, reported_at: datetime | None = None) -> None:
        """Collect the night of a spec; `reported_at` is the start of the newest run that it reports."""
        self.nights.append(night)
        self.after[name] = Before(night.failed, reported_at)

    def run(self, path: Path) -> int:
        """Run a spec, or collect why it cannot be read; return the exit code of the run."""
        place, began = self.place, datetime.now(timezone.utc)
        try:
            spec = read_spec(path, RunOptions())
        except PerfrunnerError as error:  # one broken spec must not stop the others
            last = self.before.get(path.stem, self.unknown)
            self.add(path.stem, _unread(path.stem, error, last.failed), last.reported_at)
            self.histories[path.stem] = _histories(place.out, path.stem)
            return error.exit_code
        last = self.before.get(spec.name, self.unknown)
        if path.stem != spec.name and path.stem in self.before:  # it could not be read last night
            last = replace(last, failed=last.failed or self.before[path.stem].failed)
            self.after.setdefault(path.stem, Before())
        reported = reported_until(place.out, spec.name, last, began)
        log = place.logs / f"{spec.name}-{began:%Y%m%d-%H%M%S-%f}.log"
        since = Before(last.failed, reported)
        code = run_spec(path, place.out, self.cache_dir, log, resume=_was_cut(place.out, spec.name))
        if code == EXIT_INTERRUPTED:
            return code
        histories = _histories(place.out, spec.name)
        decided: Sequence[Decision] = ()
        if self.verify and code == EXIT_OK:
            verification = _verification(place, path, self.cache_dir, log, bisect=self.bisect)
            decided = verification.decide(spec, histories, reported)
            self.verified.append(spec.name)
        outcome = _Outcome(code, histories, decided)
        night = _night(place, spec.name, outcome, log, began, since)
        newest = max([reported, *(h.newest_at or reported for h in histories)])
        self.add(spec.name, night, newest)
        self.histories[spec.name] = histories
        if not night.failed:
            self.ran.append(spec)
        place.keep_newest(spec.name, self.keep)
        return code


def _yield_to_earlier(ctx: click.Context, place: Place) -> None:
    """Hold the results directory until the command ends; end it if an earlier night still runs."""
    earlier = ctx.with_resource(place.alone())
    if earlier:
        note(f"an earlier night is still running ({earlier}): tonight's specs are not run")
    if earlier is not None:
        ctx.exit(EXIT_OK)


def _last_night(place: Place) -> tuple[Mapping[str, Before], Before]:
    """Return what the last night left, and what holds for a spec that it has nothing of."""
    stored = place.state()
    if stored is None:
        note(f"{place.state_file} cannot be read: every known change counts as news")
        return {}, Before(reported_at=EVER)
    return stored, Before()


def _remove_old_builds(cache_dir: Path, specs: Sequence[Spec], keep: int) -> None:
    """Remove all but the `keep` most recently used builds, or more if tonight's specs have more.

    A build that cannot be removed is left for the next night.
    """
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
            note(f"old builds were not removed: {error.message}")


class _Outcome(NamedTuple):
    """Exit code of a run, the history of each followed metric, and what direct comparisons decided."""

    code: int
    histories: Sequence[History]
    decided: Sequence[Decision]


def _verification(
    place: Place, spec_path: Path, cache: Path, log: Path, *, bisect: bool
) -> Verification:
    """Return the comparisons of a spec's suspicions, which run as `perfrunner run` and write to its log."""
    from perfrunner.cli.nightly_verify import Verification

    def latest(name: str) -> ExperimentData | None:
        def read(store: ResultStore) -> ExperimentData | None:
            newest = store.latest(name)
            return None if newest is None else store.load(newest.id)

        data: ExperimentData | None = read_results(place.out, read)
        return data

    def note_in_log(text: str) -> None:
        with log.open("a", encoding="utf-8", errors="surrogateescape") as out:
            out.write(text)

    return Verification(
        place.out / NIGHTLY,
        run=lambda path: run_spec(path, place.out, cache, log, resume=False),
        latest=latest,
        bisect=partial(_bisected, spec_path, place.out, cache, log) if bisect else lambda _: "",
        log=note_in_log,
    )


def _bisected(spec_path: Path, out: Path, cache: Path, log: Path, suspicion: Suspicion) -> str:
    """Call `perfrunner bisect` for a confirmed loss; return its finding, or an empty text if it fails."""
    from perfrunner.domain import NO_BUCKET

    case = suspicion.series.case
    words = ["bisect", str(real_path(spec_path)), "--good", suspicion.good, "--bad", suspicion.bad]
    words += ["--metric", suspicion.series.metric.id, "--workloads", case.workload]
    words += ["--set", f"buckets=[{case.bucket}]"] if case.bucket != NO_BUCKET else []
    words += ["--out", str(out), "--cache", str(cache), "--quiet"]
    with log.open("ab") as err, TemporaryFile() as printed:
        code = run_child(
            [*PERFRUNNER, *words], stdin=subprocess.DEVNULL, stdout=printed, stderr=err,
            env=with_store(os.environ, options.store_url()),
        )  # fmt: skip
        printed.seek(0)
        finding = printed.readline().decode(errors="replace").rstrip("\n")
    return finding if code == EXIT_OK else ""


def run_spec(path: Path, out: Path, cache: Path, log: Path, *, resume: bool) -> int:
    """Call `perfrunner run` with its output in `log`, and return its exit code.

    A run that cannot be resumed is started again from the beginning.
    """
    args = ["run", str(real_path(path)), "--out", str(out), "--cache", str(cache), "--quiet"]
    code = _perfrunner([*args, "--resume"], log) if resume else EXIT_USAGE
    return _perfrunner(args, log) if code == EXIT_USAGE else code


def _perfrunner(args: Sequence[str], log: Path) -> int:
    with log.open("ab") as out:
        out.write(os.fsencode(" ".join(["$ perfrunner", *args]) + "\n"))
        out.flush()
        return run_child(
            [*PERFRUNNER, *args],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=with_store(os.environ, options.store_url()),
        )


def _was_cut(out: Path, spec: str) -> bool:
    """Return whether the newest run can be resumed: it was interrupted, or lost a host after some trials.

    A run that failed otherwise is not resumed, because its source may be the cause.
    """
    from perfrunner.experiment.outdir import ENDS, JOURNAL, read_journal

    def read(store: ResultStore) -> bool:
        newest = store.latest(spec)
        if newest is None or newest.state == "done":
            return False
        if newest.state != "failed":
            return True
        ends = [e for e in read_journal(out / newest.id / JOURNAL) if e["event"] in ENDS]
        return bool(ends and ends[-1].get("host") and store.load(newest.id).trials)

    return bool(read_results(out, read))


def _night(
    place: Place,
    name: str,
    outcome: _Outcome,
    log: Path,
    began: datetime,
    before: Before,
) -> SpecNight:
    """Summarize a night of a spec from the history of each followed metric.

    Each alarm that became known since the last reported run is news, unless direct comparisons decided about each of
    the cases; and so is each loss that a comparison confirmed.
    """
    from perfrunner.report.history import SpecNight, alarm_text, history_text
    from perfrunner.report.redact import hidden

    record = read_results(place.out, lambda store: store.latest(name))
    report = _kept_report(place, record, began)
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:]
    tail = tuple(hidden(line, record) for line in lines)  # redacted, because it is mailed
    failed = "" if outcome.code == EXIT_OK else f"exit code {outcome.code}: {log_tail(tail)}"
    since = before.reported_at or EVER
    news = [
        alarm
        for history in outcome.histories
        for alarm in history.known_after(since)
        if alarm.verdict != "worse" or not alarm.keys <= {it.key for it in outcome.decided}
    ]
    confirmed = [decision for decision in outcome.decided if decision.text]
    changed = {(a.metric.id, a.variant) for a in news}
    changed |= {(metric, variant) for metric, variant, *_ in (it.key for it in confirmed)}
    details = [
        line
        for history in outcome.histories
        for series in history.series
        if (series.metric.id, series.variant) in changed
        for line in history_text([_only(history, series)]).splitlines()
    ]
    return SpecNight(
        name=name,
        failed=failed,
        before=before.failed,
        log=tail,
        news=(
            *(decision.text for decision in confirmed),
            *(alarm_text(alarm, outcome.histories) for alarm in news),
        ),
        restarted=next(
            filter(None, (history.begins_anew(since) for history in outcome.histories)), ""
        ),
        worse=bool(confirmed) or any(alarm.verdict == "worse" for alarm in news),
        report=report,
        details=tuple(details),
    )


def _checkout(unready: str, before: str) -> SpecNight:
    """Summarize the update of the checkout in the form of a spec's night.

    `unready` says what `scripts/nightly` could not do, its first line as `what: why`; it is empty on
    success.
    """
    from perfrunner.report.history import SpecNight

    lines = unready.splitlines()
    failed, log = "".join(lines[:1]), tuple(lines[1 : 1 + LOG_LINES])
    return SpecNight("checkout", failed=failed, before=before, log=log, cured="is up to date again")


def _unread(name: str, error: PerfrunnerError, before: str) -> SpecNight:
    from perfrunner.report.history import SpecNight

    lines = error.message.splitlines()
    why = f"exit code {error.exit_code}: {lines[0]}"
    return SpecNight(name=name, failed=why, before=before, log=tuple(lines[:LOG_LINES]))


def _only(history: History, series: object) -> History:
    return replace(history, series=tuple(s for s in history.series if s is series))


def _histories(out: Path, name: str) -> Sequence[History]:
    from perfrunner.analysis.history import histories
    from perfrunner.analysis.nights import followed_metrics, nights
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
        metrics = followed_metrics(runs[-1].experiment)
        return histories(redacted_nights(nights(runs, store.load, metrics, out)), metrics)

    return read_results(out, read) or []


def _kept_report(place: Place, record: ExperimentRecord | None, began: datetime) -> str:
    """Copy the page of tonight's run to the reports directory; return its path, or "" without a page."""
    page = None if record is None else place.out / record.id / PAGE
    if record is None or page is None or not page.is_file():
        return ""
    if page.stat().st_mtime < began.timestamp():  # of an earlier night: tonight's run did not begin
        return ""
    copy = place.reports / f"{record.name}-{began:%Y%m%d-%H%M%S-%f}.html"
    copy.write_bytes(page.read_bytes())
    return str(copy)
