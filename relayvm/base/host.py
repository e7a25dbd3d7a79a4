"""What of this computer the process may use."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")


def available_cores() -> int:
    """Return how many cores this process may use at once: at least 1.

    The fewer of those it is bound to and those that the quota of its control group pays for.
    """
    affinity: Callable[[int], set[int]] | None = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return max(1, min(cores, _quota(_CGROUPS) or cores))


@lru_cache
def _quota(folder: Path) -> int | None:
    """Return the cores that a control group pays for, rounded up; None where there is no quota."""
    for paths in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        try:
            words = " ".join((folder / path).read_text() for path in paths).split()
        except OSError:
            continue
        if len(words) == 2 and all(word.isdigit() for word in words):
            quota, period = map(int, words)
            return -(-quota // period) if period else None
    return None
