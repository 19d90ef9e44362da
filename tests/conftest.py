"""Settings that every Python test shares."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# A busy CI host makes single examples slow; the examples' number is what bounds a test's time.
settings.register_profile(
    "perfrunner", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60
)
settings.load_profile("perfrunner")
