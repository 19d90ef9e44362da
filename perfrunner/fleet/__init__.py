"""Many host groups, many experiments: a durable queue of runs, and the drivers that carry them out.

    file.py       the fleet file: where the queue is, which hosts form a group, what runs every night
    job.py        a job: one spec on one group, as the words of a `perfrunner run`
    night.py      which night a moment belongs to, so that a night's job is queued once
    queue.py      what a queue of jobs can do, and how a job stands: the rest knows no more of it
    dbos_queue.py the queue on DBOS (SQLite or PostgreSQL)
    drivers.py    who drives: a table beside the queue, with a sign of life
    child.py      a job's run: `perfrunner run` as a child process, begun or gone on with until it ends
    driver.py     a driver: takes jobs of its groups off the queue and sees to their runs

The queue gives order, one job at a time in a group, and durability. What is left to do of a run is always the plan
minus the trials in its store, and a host's own lock is the last judge of who may measure on it.
"""
