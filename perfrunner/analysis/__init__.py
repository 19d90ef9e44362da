"""Compute estimates with intervals and verdicts from stored trials. This package only reads the result store.

Start at `compare.compare`; `model.py` defines its results.
"""
