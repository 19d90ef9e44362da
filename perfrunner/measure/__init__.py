"""Compute the metrics of a trial from the reports of clients, samplers and engine."""
