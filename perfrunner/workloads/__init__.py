"""One module a workload: a scenario that reads top to bottom."""
