"""Timing of calls in one process: medians, functions in turn so that all meet the same machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from relayvm.vm.profile.model import Profile

SECONDS = 0.01
PROFILES = 9
RUNS_BETWEEN = 5
# Runs of this length fill the caches whatever ran before.
LONG_SECONDS = 0.02


def median_seconds(function: Callable[[], Any], rounds: int = 7) -> float:
    """Return the median time of a call."""
    return alternating_seconds([function], rounds)[0]


def best_seconds(function: Callable[[], Any], rounds: int = 15) -> float:
    """Return the least time of a call: what the machine can do when nothing disturbs it."""
    count = _count(function)
    return min(_seconds(function, count) for _ in range(rounds))


def alternating_seconds(
    functions: Sequence[Callable[[], Any]], rounds: int = 7, rests: bool = False
) -> list[float]:
    """Return the median time of a call of each function; every round runs all of them.

    `rests`: each begins, with a call that is not counted, when the threads of the others rest.
    """
    counts = [_count(function) for function in functions]
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(rounds):
        for function, count, own in zip(functions, counts, times):
            if rests:
                come_to_rest()
                function()
            own.append(_seconds(function, count))
    return [statistics.median(own) for own in times]


def single_seconds(function: Callable[[], Any]) -> float:
    """Return the time of one call, the first."""
    return _seconds(function, 1)


def come_to_rest() -> None:
    """Wait until no thread of this process works, for a second at most.

    Threads of other libraries look for work for up to 40 ms after a call. Whoever ran next would be
    timed on the cores that they leave.
    """
    for _ in range(200):
        before = time.process_time()
        time.sleep(0.005)
        if time.process_time() - before < 0.0005:
            return


def kernel_seconds(run: Callable[[], Any], profile: Callable[[], Profile]) -> float:
    """Return the least time that the kernels of a run take, after runs as those of a program are:
    what writes a profile down takes their operands out of the caches.
    """
    found = []
    between = RUNS_BETWEEN if single_seconds(run) < LONG_SECONDS else 1
    for _ in range(PROFILES):
        for _ in range(between):
            run()
        found.append(profile().kernel_time_ns)
    return min(found) * 1e-9


def _seconds(function: Callable[[], Any], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        function()
    return (time.perf_counter() - start) / count


def _count(function: Callable[[], Any]) -> int:
    """Return how many calls take about `SECONDS`, after one that is not counted."""
    function()
    count = 1
    while _seconds(function, count) * count < SECONDS / 2:
        count *= 2
    return count
