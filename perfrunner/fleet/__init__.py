"""A durable queue of runs for many groups of hosts, and the workers that execute them.

    file.py     read the fleet file: the queue's database, the groups of hosts, the nightly specs
    job.py      a job: one spec on one group, as arguments of `perfrunner run`, and its state
    queue.py    the queue on DBOS (SQLite or PostgreSQL)
    workers.py  the table of workers in the queue's database, with their heartbeats
    child.py    the run of a job: `perfrunner run` as a child process, started or resumed
    worker.py   a worker: take the jobs of its groups from the queue and execute them

The queue provides order, one job at a time per group, and durability. The remaining work of a run is
always its plan minus the trials in its store. The lock of a host finally decides who measures on it.
"""
