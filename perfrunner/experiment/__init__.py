"""One experiment from its spec to its stored trials.

run.py        entry point: lock the results directory, create or resume a session, run it
session.py    the experiment that a run adds trials to, and the context that all parts of a run share
runner.py     the flow of a run: open the hosts, build, check settings, measure, finish
events.py     what a run reports to its listener, and its outcome
interrupt.py  signals: end a run in order, or at once
outdir.py     the results directory: its lock, the journal, errors of its disk
recorder.py   store the trials, estimate the time left, report progress
units.py      run what the schedule says, one unit after the other; wait for lost hosts
stopping.py   end or extend cases by their precision; end a run after repeated failures
plan.py       the groups, the order of the blocks, and all seeds
schedule.py   what to run next: the plan minus the stored trials
sampling_check.py   what sampling costs, measured after the last block
preflight/    before the first trial: hosts, their facts and health, builds, settings checks
trial/        one case of one block: start engines, run the workload, decide whether the trial counts
"""
