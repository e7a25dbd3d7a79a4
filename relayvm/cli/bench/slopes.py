"""The time of one more round: slopes between two lengths, with confidence intervals."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

_RESAMPLES = 2000
_FIRST = 16
# A first call may compile, so growth starts from the second.
_SHORT_SHARE = 4


@dataclass(frozen=True, slots=True)
class Slope:
    """Nanoseconds a round: the median of the rounds, and the interval that holds the true median in
    95 of 100 benchmarks.
    """

    ns: float
    low: float
    high: float

    def scaled(self, factor: float) -> Slope:
        """Return it for another unit."""
        return Slope(self.ns * factor, self.low * factor, self.high * factor)


def lengths(run: Callable[[int], Any], seconds: float, most: int | None) -> tuple[int, int]:
    """Return a short and a long length, of which the long one takes about `seconds`."""
    run(_FIRST)
    long = _FIRST
    while _seconds(run, long) < seconds and (most is None or long * 2 <= most):
        long *= 2
    return max(1, long // _SHORT_SHARE), long


def slope(run: Callable[[int], Any], short: int, long: int, rounds: int, units: float) -> Slope:
    """Return the time of a unit; `units` are those that the long run has more than the short one.

    The two alternate, so that both meet the same machine.
    """
    found = []
    for _ in range(rounds):
        less, more = _seconds(run, short), _seconds(run, long)
        found.append((more - less) * 1e9 / units)
    return Slope(statistics.median(found), *confidence(found))


def confidence(values: list[float], seed: int = 1) -> tuple[float, float]:
    """Return the 2.5th and 97.5th percentile of the medians of samples that are drawn, with
    replacement, from the values: the bootstrap (Efron, 1979).
    """
    rng = np.random.default_rng(seed)
    drawn = rng.choice(np.asarray(values), (_RESAMPLES, len(values)))
    low, high = np.percentile(np.median(drawn, axis=1), [2.5, 97.5])
    return float(low), float(high)


def _seconds(run: Callable[[int], Any], length: int) -> float:
    """Return the time that the process had on a CPU, which other programs do not lengthen."""
    start = time.process_time()
    run(length)
    return time.process_time() - start
