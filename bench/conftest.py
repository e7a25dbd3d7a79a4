"""Each benchmark prints its ratio to a named reference, measured in the same process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import pytest

from relayvm.cli.bench.timing import come_to_rest


def median_seconds(function: Callable[[], Any], rounds: int = 7) -> float:
    """Return the median time of a call, after one that is not counted."""
    function()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def seconds_alone(function: Callable[[], Any]) -> float:
    """Return the time of one call after another, begun when nothing else works."""
    come_to_rest()
    return median_seconds(function, 1)


@pytest.fixture
def compare(benchmark: Any, capsys: pytest.CaptureFixture[str]) -> Callable[..., float]:
    """Benchmark `ours` and note how many times slower each named peer is; alternating, medians."""

    def run(ours: Callable[[], Any], **peers: Callable[[], Any]) -> float:
        benchmark(ours)
        first = 0.0
        for name, peer in peers.items():
            pairs = [(seconds_alone(peer), seconds_alone(ours)) for _ in range(7)]
            ratio = statistics.median(theirs / own for theirs, own in pairs)
            benchmark.extra_info[f"{name} / ours"] = round(ratio, 3)
            first = first or ratio
            with capsys.disabled():
                print(f"\n  {name} takes {ratio:.2f} times as long", end="")
        return first

    return run
