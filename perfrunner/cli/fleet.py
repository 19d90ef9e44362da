"""`perfrunner fleet`: queue runs for many groups of hosts, and run the workers that execute them."""

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
from perfrunner.cli.fleet_tables import job_document, print_jobs, print_workers, worker_document
from perfrunner.cli.output import note, print_json
from perfrunner.cli.request import ENVIRONMENT, RunOptions, gathered, options_given, read_spec
from perfrunner.errors import UsageError, require_fleet
from perfrunner.paths import real_path
from perfrunner.spec.suggest import expected_name

if TYPE_CHECKING:
    from perfrunner.fleet.file import Fleet
    from perfrunner.fleet.job import Job
    from perfrunner.fleet.queue import DbosQueue

ENDED_SHOWN = 10  # number of ended jobs that `status` shows without --all
MEASURED = ("overrides", "profile", "named_sources", "repeats", "seed", "workloads", "variants")
ALWAYS = ("cache_dir", "engine_src", "fail_on", "tune")

fleet_option = click.option(
    "--fleet",
    "fleet_path",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    envvar="PERFRUNNER_FLEET",
    default=Path("fleet.yaml"),
    show_default=True,
    help="Fleet file, which lists the groups of hosts and the database of the queue; $PERFRUNNER_FLEET names another.",
)


@click.group(
    "fleet",
    epilog="\b\nExamples:\n  perfrunner fleet workers                      start a worker (not on a measured machine)"
    "\n  perfrunner fleet submit spec.yaml -g lab-a    queue a run"
    "\n  perfrunner fleet schedule                     queue the nightly runs of the fleet file, from cron"
    "\n  perfrunner fleet status\n  perfrunner fleet cancel JOB\n  perfrunner fleet recover WORKER"
    "\n  perfrunner fleet clean --keep 100             remove old jobs from the queue"
    "\n\nEach group runs one job at a time. A job is a `perfrunner run` that is resumed if it was interrupted.",
)
def command() -> None:
    """Queue runs for many groups of hosts, and run the jobs of each group one at a time."""


@command.command(
    "submit",
    short_help="Queue a run of SPEC.",
    epilog="\b\nExamples:\n  perfrunner fleet submit spec.yaml --group lab-a"
    "\n  perfrunner fleet submit spec.yaml -g lab-a -g lab-b --priority 10 --repeats 20"
    "\n  perfrunner fleet submit spec.yaml -g lab-a --source after=my-branch --fail-on worse"
    "\n  perfrunner fleet submit spec.yaml -g lab-a --night     queue it at most once per night"
    "\n\nPrints the id of each job. The options from --set on are those of `perfrunner run`.",
)
@options.spec_argument
@fleet_option
@click.option(
    "-g",
    "--group",
    "groups",
    metavar="NAME",
    multiple=True,
    help="Group to run on; repeatable (default: the only group of the fleet file).",
)
@click.option(
    "--priority",
    type=click.IntRange(1, 1_000_000),
    metavar="N",
    help="Priority; lower numbers run first (default: 100, or 200 with --night).",
)
@click.option(
    "--night", "nightly", is_flag=True, help="Queue at most one job per spec, group and night."
)
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
@gathered(RunOptions, "given")
def submit(
    ctx: click.Context,
    spec_path: Path,
    fleet_path: Path,
    groups: tuple[str, ...],
    priority: int | None,
    nightly: bool,
    given: RunOptions,
) -> None:
    """Queue a run of SPEC on each group. A worker of the group executes it (see `perfrunner fleet workers`)."""
    fleet = _load(fleet_path)
    from perfrunner.fleet.file import NIGHTLY_PRIORITY, NORMAL_PRIORITY
    from perfrunner.fleet.job import new_job

    chosen = fleet.chosen(groups)
    night = _tonight(fleet) if nightly else None
    jobs = []
    for group in chosen:
        spec = read_spec(spec_path, replace(given, cluster=Path(group.cluster), engine_src=None))
        given.selected(spec)  # reports unknown names before anything is queued
        job = new_job(
            spec, spec_path, group, measured=options_given(ctx, MEASURED), always=_always(ctx), night=night,
            store=fleet.store,
        )  # fmt: skip
        jobs.append(
            replace(job, priority=priority or (NIGHTLY_PRIORITY if night else NORMAL_PRIORITY))
        )
    with _queue(fleet, create=True) as queue:
        _submit(queue, jobs, given.as_json)


@command.command(
    "schedule",
    short_help="Queue the nightly runs.",
    epilog="\b\nExample (a line of crontab):\n  0 22-23,0-4 * * *  perfrunner fleet schedule --fleet /srv/fleet.yaml"
    "\n\nCalling it repeatedly is safe: each spec, group and night (from noon to noon) gets one job. No job is queued"
    "\nwhile that of an earlier night is still queued or running.",
)
@fleet_option
@options.json_option
def schedule(fleet_path: Path, as_json: bool) -> None:
    """Queue the specs that the fleet file lists under `nightly`, once per night."""
    fleet = _load(fleet_path)
    if not fleet.nightly:
        raise UsageError(
            f"{fleet_path}: `nightly` is empty",
            "list specs and groups there, see docs/how-to/fleet.md",
        )
    from perfrunner.fleet.job import new_job

    jobs: list[Job] = []
    for entry in fleet.nightly:
        args = [*_given("--profile", entry.profile), *_given("--repeats", entry.repeats)]
        path = Path(entry.spec)
        for name in entry.groups:
            group = fleet.groups[name]
            given = RunOptions(
                profile=entry.profile, repeats=entry.repeats, cluster=Path(group.cluster)
            )
            spec = read_spec(path, given)
            job = new_job(
                spec, path, group, measured=args, always=[], night=_tonight(fleet), store=fleet.store
            )  # fmt: skip
            if job.id in [other.id for other in jobs]:
                raise UsageError(
                    f"{fleet_path}: nightly: two specs of group {name} have the name {spec.name}",
                    "change `name` in one of the specs",
                )
            jobs.append(replace(job, priority=entry.priority))
    with _queue(fleet, create=True) as queue:
        _submit(queue, jobs, as_json)


@command.command(
    "workers",
    short_help="Start a worker, which runs the jobs of groups.",
    epilog="\b\nExamples:\n  perfrunner fleet workers                        serve all groups of the fleet file"
    "\n  perfrunner fleet workers -g lab-a -g lab-b --name east"
    "\n  perfrunner fleet workers --drain                exit when no job is left"
    "\n\nCtrl-C (or SIGTERM) stops its runs cleanly and requeues its jobs; a second one stops them at once. A worker"
    "\nthat was killed resumes its jobs when it is started again with the same name. docs/how-to/fleet.md has a"
    "\nsystemd unit.",
)
@fleet_option
@click.option(
    "-g",
    "--group",
    "groups",
    metavar="NAME",
    multiple=True,
    help="Serve this group; repeatable (default: all groups).",
)
@click.option("--name", metavar="NAME", help="Worker name (default: host name).")
@click.option("--drain", is_flag=True, help="Exit when the groups have no job queued or running.")
def workers(fleet_path: Path, groups: tuple[str, ...], name: str | None, drain: bool) -> None:
    """Start a worker, which takes the jobs of groups from the queue and runs them, one at a time per group."""
    fleet = _load(fleet_path)
    chosen = [group.name for group in fleet.chosen(groups or tuple(fleet.groups))]
    with _queue(fleet, create=True) as queue:
        from perfrunner.fleet.worker import WorkerProcess

        worker = WorkerProcess(queue, name or socket.gethostname(), chosen, _log, fleet.store)
        worker.run(drain=drain)


@command.command(
    "status",
    short_help="Show the jobs and the workers.",
    epilog="\b\nExamples:\n  perfrunner fleet status\n  perfrunner fleet status --all --json"
    "\n  perfrunner fleet status quickstart-lab-a-night-20261120",
)
@click.argument("job_id", metavar="[JOB]", required=False)
@fleet_option
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help=f"Show all ended jobs (default: the last {ENDED_SHOWN}).",
)
@options.json_option
def status(job_id: str | None, fleet_path: Path, everything: bool, as_json: bool) -> None:
    """Show the jobs, or only JOB (an id or the start of one), with progress and time left, and the workers."""
    from perfrunner.fleet.job import UNFINISHED, find
    from perfrunner.fleet.workers import Workers

    with _queue(_load(fleet_path, hosts=False), create=False) as queue:
        jobs = list(queue.jobs())
        if job_id:
            jobs = [find(jobs, job_id)]
        known = Workers(queue.engine, queue.place)
        workers, workers_now = known.all(), known.now()
    if not (everything or job_id or as_json):
        ended = [s for s in jobs if s.state not in UNFINISHED][:-ENDED_SHOWN]
        jobs = [s for s in jobs if s not in ended]
    now = time.time()
    if as_json:
        print_json(
            {
                "jobs": [job_document(s, now) for s in jobs],
                "workers": [worker_document(d, workers_now) for d in workers],
            }
        )
        return
    print_jobs(jobs, now)
    print_workers(workers, workers_now)
    for worker in workers:
        stuck = [s for s in jobs if s.state == "running" and s.worker == worker.name]
        if stuck and not worker.may_live(workers_now):
            note(
                f"worker {worker.name} is no longer running but has jobs;"
                f" requeue them with: perfrunner fleet recover {worker.name}"
            )


@command.command(
    "cancel",
    short_help="Cancel jobs.",
    epilog="\b\nExample:\n  perfrunner fleet cancel quickstart-lab-a-20261120-220000-1f2e"
    "\n\nThe measurements of a cancelled run are kept; it can be resumed with `perfrunner run --resume`.",
)
@click.argument("job_ids", metavar="JOB...", nargs=-1, required=True)
@fleet_option
def cancel(job_ids: tuple[str, ...], fleet_path: Path) -> None:
    """Remove each JOB (an id or the start of one) from the queue, and stop its run cleanly if it is running."""
    from perfrunner.fleet.job import UNFINISHED, find

    with _queue(_load(fleet_path, hosts=False), create=False) as queue:
        known = queue.jobs()
        jobs = [find(known, job_id) for job_id in job_ids]
        for status in jobs:
            if status.state not in UNFINISHED:
                raise UsageError(f"job {status.job.id} has already ended: {status.state}")
        for status in jobs:
            queue.cancel(status.job.id)
            click.echo(f"{status.job.id} cancelled")
            if status.progress.experiment:
                note(
                    "the measurements are kept; resume the run with:"
                    f" perfrunner run --resume {status.progress.experiment} --out {status.job.out}"
                )


@command.command(
    "recover",
    short_help="Requeue the jobs of a dead worker.",
    epilog="\b\nExamples:\n  perfrunner fleet recover east"
    "\n  perfrunner fleet recover east --force      the worker runs but cannot be reached"
    "\n\nA silent worker keeps its jobs, because it may only have lost the database while its runs continue. If it"
    "\nreturns after `recover`, it stops these runs; until then the locks of the hosts prevent a second run.",
)
@click.argument("worker", metavar="WORKER")
@fleet_option
@click.option("--force", is_flag=True, help="Requeue even if the worker may still be running.")
def recover(worker: str, fleet_path: Path, force: bool) -> None:
    """Requeue the jobs of WORKER for other workers of their groups, which resume the runs."""
    from perfrunner.fleet.workers import Workers

    with _queue(_load(fleet_path, hosts=False), create=False) as queue:
        workers = Workers(queue.engine, queue.place)
        known = {d.name: d for d in workers.all()}
        if worker not in known:
            raise UsageError(expected_name("a worker", worker, known))
        if known[worker].may_live(workers.now()) and not force:
            process = known[worker].process
            raise UsageError(
                f"worker {worker} is still running (pid {process.pid} on {known[worker].host})",
                "stop it there (it requeues its own jobs), or pass --force",
            )
        requeued = queue.give_back(worker)
    for job_id in requeued:
        click.echo(f"{job_id} requeued")
    if not requeued:
        note(f"worker {worker} has no jobs")


@command.command(
    "clean",
    short_help="Remove old jobs from the queue.",
    epilog="\b\nExamples:\n  perfrunner fleet clean --keep 100"
    "\n  perfrunner fleet clean --keep 100 --dry-run     list the jobs without removing them"
    "\n\nResults and logs are not removed. Jobs that ended within the last two days are kept, because a nightly job"
    "\nprevents `schedule` from queueing the same night again.",
)
@fleet_option
@click.option(
    "--keep",
    type=click.IntRange(0),
    required=True,
    metavar="N",
    help="Keep the N newest ended jobs of each group.",
)
@click.option("--dry-run", is_flag=True, help="List the jobs without removing them.")
def clean(fleet_path: Path, keep: int, dry_run: bool) -> None:
    """Remove old ended jobs from the queue. Queued and running jobs are not affected."""
    from perfrunner.fleet.job import forgettable

    with _queue(_load(fleet_path, hosts=False), create=False) as queue:
        old = [status.job.id for status in forgettable(queue.jobs(), keep, _now())]
        if old and not dry_run:
            queue.forget(old)
    for job_id in old:
        click.echo(f"{job_id} {'would be removed' if dry_run else 'removed'}")
    if not old:
        note("nothing to remove")


# -- the fleet file and the queue


def _load(path: Path, *, hosts: bool = True) -> Fleet:
    require_fleet()
    from perfrunner.fleet.file import load_fleet

    return load_fleet(path, hosts=hosts)


@contextmanager
def _queue(fleet: Fleet, *, create: bool) -> Iterator[DbosQueue]:
    from perfrunner.fleet.queue import DbosQueue

    queue = DbosQueue.open(fleet.database, create=create)
    try:
        yield queue
    finally:
        queue.close()


# -- jobs


def _always(ctx: click.Context) -> list[str]:
    """Return the options of every call; $PERFRUNNER_ENGINE_SRC becomes one, as workers do not inherit it."""
    args = options_given(ctx, ALWAYS)
    if ctx.params["engine_src"] is None and os.environ.get(ENVIRONMENT):
        args += ["--engine-src", str(real_path(Path(os.environ[ENVIRONMENT])))]
    return args


def _submit(queue: DbosQueue, jobs: Sequence[Job], as_json: bool) -> None:
    from perfrunner.fleet.job import unfinished_twin

    queued = queue.jobs()
    documents: list[dict[str, Any]] = []
    for job in jobs:
        before = unfinished_twin(job, queued)
        fresh = before is None and queue.submit(job)
        documents.append({"job": job.id, "group": job.group, "queued": fresh})
        if before is not None:
            note(f"{job.id} was not queued: {before.id} has not ended")
        elif not fresh:
            note(f"{job.id} was not queued: it exists already")
        elif not as_json:
            click.echo(job.id)
    if as_json:
        print_json({"jobs": documents})


def _given(flag: str, value: object) -> list[str]:
    return [] if value is None else [flag, str(value)]


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _tonight(fleet: Fleet) -> date:
    from perfrunner.fleet.job import night_of

    return night_of(_now(), fleet.timezone)


def _log(text: str) -> None:
    note(f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S} {text}")
