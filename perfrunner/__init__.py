"""perfrunner: an A/B benchmark laboratory for a key-value engine."""

from __future__ import annotations

__version__ = "0.1.0"
