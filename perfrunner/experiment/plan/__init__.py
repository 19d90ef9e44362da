"""Decide what to run next: blocks in random order, minus stored trials, plus trials to redo."""
