"""Implement the workloads: one module per type, each with a scenario that runs its phases in order."""
