"""Benchmarks still run; what they measure is read by people."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
QUICK = ["--benchmark-only", "--benchmark-min-rounds=1", "--benchmark-max-time=0.01"]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(p.name for p in (ROOT / "bench").glob("test_*.py")))
def test_benchmarks_run(name: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", *QUICK, f"bench/{name}"]
    # Inside a worker of pytest-xdist benchmarks would turn themselves off.
    settings = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    done = subprocess.run(
        command, cwd=ROOT, env=settings, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:]
