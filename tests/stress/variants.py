"""Builds the torture and sanitizer variants of the runtime when their sources are newer."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUNTIME = ROOT / "relayvm" / "vm" / "runtime"


@lru_cache
def build(variant: str) -> None:
    """Build `stress` or `sanitize` in place; the runtime itself, without a name, is there."""
    if not variant:
        return
    library = RUNTIME.parent / f"_runtime_{variant}.abi3.so"
    sources = [p for p in RUNTIME.rglob("*") if p.suffix in (".c", ".h", ".inc", ".py")]
    if library.exists() and library.stat().st_mtime > max(p.stat().st_mtime for p in sources):
        return
    command = [sys.executable, "-m", "relayvm.vm.runtime.build", f"--{variant}"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)


def environment(variant: str) -> dict[str, str]:
    """Return the environment of a process that uses the variant; skips without a sanitizer."""
    settings = dict(os.environ, RELAYVM_RUNTIME=variant)
    if variant == "sanitize":
        names = ("libasan.so", "libubsan.so")
        found = [
            subprocess.run(
                ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=False
            ).stdout.strip()
            for name in names
        ]
        if not all(os.path.isabs(path) for path in found):
            pytest.skip("no sanitizer libraries")
        settings |= {"LD_PRELOAD": " ".join(found), "ASAN_OPTIONS": "detect_leaks=0"}
    return settings


def run(variant: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the variant; returns when it ends, however it ends."""
    settings = environment(variant)
    build(variant)
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=settings,
        capture_output=True,
        text=True,
        check=False,
    )
