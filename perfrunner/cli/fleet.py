"""`perfrunner fleet`: a queue of runs for many groups of hosts, and the drivers that carry them out."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfrunner.cli import options
from perfrunner.cli.engine_source import ENVIRONMENT
from perfrunner.cli.fleet_tables import driver_document, job_document, print_drivers, print_jobs
from perfrunner.cli.invocation import words_of
from perfrunner.cli.output import note, print_json
from perfrunner.errors import UsageError
from perfrunner.spec.suggest import expected_name

if TYPE_CHECKING:
    from perfrunner.fleet.dbos_queue import DbosQueue
    from perfrunner.fleet.file import Fleet, Group
    from perfrunner.fleet.job import Job
    from perfrunner.spec import Spec

ENDED_SHOWN = 10  # of the jobs that have ended, unless --all
MEASURED = ("overrides", "profile", "named_sources", "repeats", "seed", "workloads", "variants")
ALWAYS = ("cache_dir", "engine_src", "fail_on", "quieten")

fleet_option = click.option(
    "--fleet",
    "fleet_path",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    envvar="PERFRUNNER_FLEET",
    default=Path("fleet.yaml"),
    show_default=True,
    help="The fleet file: groups of hosts, and where the queue is.",
)


@click.group(
    "fleet",
    short_help="A queue of runs for many groups of hosts.",
    epilog="\b\nExamples:\n  perfrunner fleet workers                      on a machine that drives, not a measured one"
    "\n  perfrunner fleet submit spec.yaml -g lab-a    queue a run"
    "\n  perfrunner fleet schedule                     from cron: what the fleet file lists for every night"
    "\n  perfrunner fleet status\n  perfrunner fleet cancel JOB\n  perfrunner fleet recover DRIVER"
    "\n  perfrunner fleet clean --keep 100             forget jobs that ended long ago"
    "\n\nEach group runs one job at a time; a job is a perfrunner run that goes on where it stopped.",
)
def command() -> None:
    """Queue runs for many groups of hosts, and carry them out one at a time in each."""


@command.command(
    "submit",
    short_help="Queue a run of SPEC.",
    epilog="\b\nExamples:\n  perfrunner fleet submit spec.yaml --group lab-a"
    "\n  perfrunner fleet submit spec.yaml -g lab-a -g lab-b --priority 10 --repeats 20"
    "\n  perfrunner fleet submit spec.yaml -g lab-a --source after=my-branch --fail-on worse"
    "\n  perfrunner fleet submit spec.yaml -g lab-a --night     at most once a night, however often it is called"
    "\n\nPrints the id of each job. The options from --set on are those of perfrunner run.",
)
@options.spec_argument
@fleet_option
@click.option(
    "-g", "--group", "groups", metavar="NAME", multiple=True, help="Where; repeatable. Not needed with one group."
)  # fmt: skip
@click.option(
    "--priority",
    type=click.IntRange(1, 1_000_000),
    help="A lower number runs first; otherwise 100, or 200 with --night.",
)
@click.option("--night", "nightly", is_flag=True, help="At most once for a spec, group and night.")
@options.set_option
@options.profile_option
@options.source_option
@options.repeats_option
@options.seed_option
@options.workloads_option
@options.variants_option
@options.tune_option
@options.cache_option
@options.engine_source_option
@options.fail_on_option
@options.json_option
@click.pass_context
def submit(
    ctx: click.Context,
    spec_path: Path,
    fleet_path: Path,
    groups: tuple[str, ...],
    priority: int | None,
    nightly: bool,
    overrides: tuple[str, ...],
    profile: str | None,
    named_sources: tuple[str, ...],
    repeats: int | None,
    seed: int | None,
    workloads: tuple[str, ...],
    variants: tuple[str, ...],
    quieten: bool,
    cache_dir: Path,
    engine_src: Path | None,
    fail_on: str | None,
    as_json: bool,
) -> None:
    """Queue a run of SPEC on each group; a driver of the group (perfrunner fleet workers) carries it out."""
    del seed, quieten, cache_dir, engine_src, fail_on  # they travel as words
    fleet = _load(fleet_path)
    from perfrunner.fleet.file import NIGHTLY_PRIORITY, NORMAL_PRIORITY

    chosen = _chosen(fleet, groups)
    night = _tonight(fleet) if nightly else None
    jobs = []
    for group in chosen:
        spec = options.read_spec(
            spec_path, overrides, Path(group.cluster), repeats, named_sources, profile
        )
        options.selection("workload", workloads, tuple(spec.workloads))
        options.selection("variant", variants, tuple(spec.variants))
        job = _job(
            spec, spec_path, group, measured=words_of(ctx, MEASURED), always=_always(ctx), night=night,
            store=fleet.store,
        )  # fmt: skip
        jobs.append(
            replace(job, priority=priority or (NIGHTLY_PRIORITY if night else NORMAL_PRIORITY))
        )
    with _queue(fleet, create=True) as queue:
        _submit(queue, jobs, as_json)


@command.command(
    "schedule",
    short_help="Queue what runs every night.",
    epilog="\b\nExample, a line of crontab:\n  0 22-23,0-4 * * *  perfrunner fleet schedule --fleet /srv/fleet.yaml"
    "\n\nA job of a spec, group and night (from noon to noon) is queued once, however often this is called; not while"
    "\nthe same of an earlier night is queued or running.",
)
@fleet_option
@options.json_option
def schedule(fleet_path: Path, as_json: bool) -> None:
    """Queue the specs under `nightly` of the fleet file, once a night."""
    fleet = _load(fleet_path)
    if not fleet.nightly:
        raise UsageError(f"{fleet_path}: nothing is listed under `nightly`")
    jobs: list[Job] = []
    for entry in fleet.nightly:
        words = [*_given("--profile", entry.profile), *_given("--repeats", entry.repeats)]
        for name in entry.groups:
            group = fleet.groups[name]
            spec = options.read_spec(
                entry.spec, (), Path(group.cluster), entry.repeats, (), entry.profile
            )
            job = _job(
                spec, entry.spec, group, measured=words, always=[], night=_tonight(fleet), store=fleet.store
            )  # fmt: skip
            if job.id in [other.id for other in jobs]:
                raise UsageError(
                    f"{fleet_path}: nightly: two specs for {name} have the name {spec.name}"
                )
            jobs.append(replace(job, priority=entry.priority))
    with _queue(fleet, create=True) as queue:
        _submit(queue, jobs, as_json)


@command.command(
    "workers",
    short_help="Drive: carry out the jobs of groups.",
    epilog="\b\nExamples:\n  perfrunner fleet workers                        all groups of the fleet file"
    "\n  perfrunner fleet workers -g lab-a -g lab-b --name east"
    "\n  perfrunner fleet workers --drain                end when nothing is left to do"
    "\n\nCtrl-C (or SIGTERM) stops its runs in order and queues its jobs again; a second one is in a hurry. A driver"
    "\nthat was killed goes on with its jobs when it starts again under the same name. A systemd unit: docs/fleet.md.",
)
@fleet_option
@click.option("-g", "--group", "groups", metavar="NAME", multiple=True, help="Only this one; repeatable.")  # fmt: skip
@click.option("--name", metavar="NAME", help="Of this driver; otherwise the machine's name.")
@click.option("--drain", is_flag=True, help="End when its groups have nothing queued or running.")
def workers(fleet_path: Path, groups: tuple[str, ...], name: str | None, drain: bool) -> None:
    """Take the jobs of groups off the queue, one at a time in each, and see to their runs."""
    fleet = _load(fleet_path)
    chosen = [group.name for group in _chosen(fleet, groups or tuple(fleet.groups))]
    with _queue(fleet, create=True) as queue:
        from perfrunner.fleet.driver import Driving

        Driving(queue, name or socket.gethostname(), chosen, _log).drive(drain=drain)


@command.command(
    "status",
    short_help="The jobs and the drivers.",
    epilog="\b\nExamples:\n  perfrunner fleet status\n  perfrunner fleet status --all --json"
    "\n  perfrunner fleet status quickstart-lab-a-night-20261120",
)
@click.argument("job_id", metavar="[JOB]", required=False)
@fleet_option
@click.option("--all", "everything", is_flag=True, help="Also all jobs that have ended.")
@options.json_option
def status(job_id: str | None, fleet_path: Path, everything: bool, as_json: bool) -> None:
    """Show what is queued, what runs, how far it is and how long it takes, and who drives."""
    from perfrunner.fleet.drivers import Drivers
    from perfrunner.fleet.queue import UNFINISHED, find

    with _queue(_load(fleet_path, hosts=False), create=False) as queue:
        jobs = [find(queue, job_id)] if job_id else list(queue.jobs())
        known = Drivers(queue.engine, queue.place)
        drivers, drivers_now = known.all(), known.now()
    if not (everything or job_id or as_json):
        ended = [s for s in jobs if s.state not in UNFINISHED][:-ENDED_SHOWN]
        jobs = [s for s in jobs if s not in ended]
    now = time.time()
    if as_json:
        print_json(
            {
                "jobs": [job_document(s, now) for s in jobs],
                "drivers": [driver_document(d, drivers_now) for d in drivers],
            }
        )
        return
    print_jobs(jobs, now)
    print_drivers(drivers, drivers_now)
    for one in drivers:
        stuck = [s for s in jobs if s.state == "running" and s.driver == one.name]
        if stuck and not one.may_live(drivers_now):
            note(f"{one.name} does not drive any more: perfrunner fleet recover {one.name}")


@command.command(
    "cancel",
    short_help="Take jobs off the queue.",
    epilog="\b\nExample:\n  perfrunner fleet cancel quickstart-lab-a-20261120-220000-1f2e",
)
@click.argument("job_ids", metavar="JOB...", nargs=-1, required=True)
@fleet_option
def cancel(job_ids: tuple[str, ...], fleet_path: Path) -> None:
    """Take each JOB (an id, or the start of one) off the queue; a run that it has is stopped in order."""
    from perfrunner.fleet.queue import UNFINISHED, find

    with _queue(_load(fleet_path, hosts=False), create=False) as queue:
        found = [find(queue, job_id) for job_id in job_ids]
        for one in found:
            if one.state not in UNFINISHED:
                raise UsageError(f"{one.job.id} has ended: {one.state}")
        for one in found:
            queue.cancel(one.job.id)
            click.echo(f"{one.job.id} cancelled")
            if one.progress.experiment:
                note(
                    f"what was measured is kept; to go on with it by hand:"
                    f" perfrunner run --resume {one.progress.experiment} --out {one.job.out}"
                )


@command.command(
    "recover",
    short_help="Queue the jobs of a driver again that is gone.",
    epilog="\b\nExamples:\n  perfrunner fleet recover east"
    "\n  perfrunner fleet recover east --force      it lives, but cannot be reached"
    "\n\nA silent driver keeps its jobs: it may only be cut off from the database, and its runs go on."
    "\nIf it comes back all the same, it stops them; until then the hosts' locks keep a second run away.",
)
@click.argument("driver", metavar="DRIVER")
@fleet_option
@click.option("--force", is_flag=True, help="Also of a driver that is, or may be, alive.")
def recover(driver: str, fleet_path: Path, force: bool) -> None:
    """Queue the jobs of DRIVER again, for other drivers of their groups; their runs go on where they stopped."""
    from perfrunner.fleet.drivers import Drivers

    with _queue(_load(fleet_path, hosts=False), create=False) as queue:
        drivers = Drivers(queue.engine, queue.place)
        known = {d.name: d for d in drivers.all()}
        if driver not in known:
            raise UsageError(expected_name("a driver", driver, known))
        if known[driver].may_live(drivers.now()) and not force:
            process = known[driver].process
            raise UsageError(
                f"{driver} drives: pid {process.pid} on {known[driver].host}",
                "end it there, and it queues its jobs again itself; or --force",
            )
        given_back = queue.give_back(driver)
    for job_id in given_back:
        click.echo(f"{job_id} queued again")
    if not given_back:
        note(f"{driver} has no job")


@command.command(
    "clean",
    short_help="Forget jobs that ended long ago.",
    epilog="\b\nExamples:\n  perfrunner fleet clean --keep 100"
    "\n  perfrunner fleet clean --keep 100 --dry-run     what it would forget"
    "\n\nResults and logs stay where they are, and jobs that ended within two days: a night's job keeps"
    "\ncron from queueing that night again.",
)
@fleet_option
@click.option(
    "--keep",
    type=click.IntRange(0),
    required=True,
    metavar="N",
    help="Keep the N newest jobs of each group that have ended.",
)
@click.option("--dry-run", is_flag=True, help="Only say which.")
def clean(fleet_path: Path, keep: int, dry_run: bool) -> None:
    """Remove ended jobs from the queue, which grows for ever otherwise; what waits or runs is left alone."""
    from perfrunner.fleet.retention import forgettable

    with _queue(_load(fleet_path, hosts=False), create=False) as queue:
        old = [status.job.id for status in forgettable(queue.jobs(), keep, _now())]
        if old and not dry_run:
            queue.forget(old)
    for job_id in old:
        click.echo(f"{job_id} {'would be forgotten' if dry_run else 'forgotten'}")
    if not old:
        note("nothing to forget")


# -- the fleet file and the queue


def _load(path: Path, *, hosts: bool = True) -> Fleet:
    from perfrunner.cluster.extra import require_fleet

    require_fleet()
    from perfrunner.fleet.file import load_fleet

    return load_fleet(path, hosts=hosts)


def _chosen(fleet: Fleet, names: Sequence[str]) -> list[Group]:
    if not names and len(fleet.groups) == 1:
        names = tuple(fleet.groups)
    if not names:
        raise UsageError(f"which group? --group {' | '.join(fleet.groups)}")
    for name in names:
        if name not in fleet.groups:
            raise UsageError(
                f"--group {name}: {expected_name('a group of the fleet file', name, fleet.groups)}"
            )
    return [fleet.groups[name] for name in dict.fromkeys(names)]


@contextmanager
def _queue(fleet: Fleet, *, create: bool) -> Iterator[DbosQueue]:
    from perfrunner.fleet.dbos_queue import DbosQueue

    queue = DbosQueue.open(fleet.database, create=create)
    try:
        yield queue
    finally:
        queue.close()


# -- jobs


def _job(
    spec: Spec,
    path: Path,
    group: Group,
    *,
    measured: Sequence[str],
    always: Sequence[str],
    night: date | None,
    store: str | None,
) -> Job:
    from perfrunner.fleet.job import Job, fresh_id, night_id

    return Job(
        id=night_id(spec.name, group.name, night) if night else fresh_id(spec.name, group.name),
        name=spec.name,
        spec=str(path.resolve()),
        group=group.name,
        cluster=group.cluster,
        out=str(group.out),
        directory=str(Path.cwd()),
        measured=tuple(measured),
        always=tuple(always),
        night=str(night) if night else None,
        store=store,
    )


def _always(ctx: click.Context) -> list[str]:
    """A driver has an environment of its own: what this one says of the source travels as an option."""
    words = words_of(ctx, ALWAYS)
    if ctx.params["engine_src"] is None and os.environ.get(ENVIRONMENT):
        words += ["--engine-src", str(Path(os.environ[ENVIRONMENT]).resolve())]
    return words


def _submit(queue: DbosQueue, jobs: Sequence[Job], as_json: bool) -> None:
    from perfrunner.fleet.queue import UNFINISHED

    unfinished = [s.job for s in queue.jobs() if s.state in UNFINISHED]
    documents: list[dict[str, Any]] = []
    for job in jobs:
        before = [
            other.id
            for other in unfinished
            if job.night and other.night and other.id != job.id
            if (other.name, other.group) == (job.name, job.group)
        ]
        fresh = not before and queue.submit(job)
        documents.append({"job": job.id, "group": job.group, "queued": fresh})
        if before:
            note(f"{job.id} is not queued: {before[0]} has not ended")
        elif not fresh:
            note(f"{job.id} is queued already, or has ended")
        elif not as_json:
            click.echo(job.id)
    if as_json:
        print_json({"jobs": documents})


def _given(flag: str, value: object) -> list[str]:
    return [] if value is None else [flag, str(value)]


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _tonight(fleet: Fleet) -> date:
    from perfrunner.fleet.night import night_of

    return night_of(_now(), fleet.timezone)


def _log(text: str) -> None:
    note(f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S} {text}")
