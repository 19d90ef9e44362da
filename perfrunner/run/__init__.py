"""One experiment from its spec to its stored trials.

    runner.py     begin or resume an experiment, run it, give its outcome
    underway.py   the flow: open the hosts, build, prove, measure, end
    plan/         what to run next: the order of the blocks, the schedule, precision, the time that is left
    preflight/    before anything is measured: the hosts, their facts and health, builds and proof
    trial/        one cell of one block: fresh engines, the verbs of a scenario, the rules of counting

Beside them what the whole run shares: its record in the store (opening), its journal, its locks, its signals,
the events that it tells.
"""
