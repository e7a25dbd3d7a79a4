"""Hypothesis profiles: HYPOTHESIS_PROFILE picks `dev` (default), `ci` or `long`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

COMMON = {
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
    "database": None,
}
settings.register_profile("dev", max_examples=30, derandomize=True, **COMMON)
settings.register_profile("ci", max_examples=200, derandomize=True, **COMMON)
settings.register_profile("long", max_examples=5000, **COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))
