"""Run one case of one block: start fresh engines, run the workload, stop them, decide whether the trial counts."""
