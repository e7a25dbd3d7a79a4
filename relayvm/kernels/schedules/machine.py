"""What schedules know of a CPU: its vector registers and the size of its cache."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

from relayvm.base.diagnostics import RelayError
from relayvm.base.native.cpu import dot_signs, target_cpu
from relayvm.base.target import Target

# A core's own second-level cache where nothing is known of the CPU; few have less.
USUAL_CACHE_BYTES = 1 << 19
MAX_CACHE_BYTES = 1 << 21
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_WIDE = ("avx512", "x86-64-v4", "znver4", "znver5", "icelake", "cascadelake", "rapids")


def vector_registers(target: Target) -> int:
    """Return how many vectors of 16 float32 the partials of a tile may take on a target."""
    text = f"{target.cpu} {target.features}" if _is_named(target) else host_features()
    # 32 registers of 16 elements; else 16 of 8, or 32 of 4, which leave room for the operands.
    return 16 if any(word in text for word in _WIDE) else 6


def vector_bytes(target: Target) -> int:
    """Return how many bytes a vector register of a target has."""
    try:
        return max(16, target_cpu(target).vector_bits // 8)
    except RelayError:
        return 16


def cache_bytes(target: Target) -> int:
    """Return the size of a core's own second-level cache, a power of two: this machine's where
    it is the target."""
    size = USUAL_CACHE_BYTES if _is_named(target) else _host_cache_bytes()
    power = USUAL_CACHE_BYTES // 2
    while power * 2 <= min(size, MAX_CACHE_BYTES):
        power *= 2
    return power


def dot_kind(target: Target) -> str:
    """Return how a target sums products of small integers that lie side by side.

    `mixed`: of four bytes where one factor is signed and the other is not, and of two words;
    `same`: of four bytes that are both signed or both not; `pairs`: of two words; else nothing.
    """
    try:
        cpu = target_cpu(target)
    except RelayError:
        return ""
    return dot_signs(cpu) or ("pairs" if cpu.vector_bits else "")


def _is_named(target: Target) -> bool:
    """Return whether a target is another CPU than this machine's, as far as can be known."""
    foreign = bool(target.triple) and target.triple.split("-")[0] != platform.machine()
    return bool(target.cpu or target.features) or foreign


@cache
def _host_cache_bytes() -> int:
    for folder in sorted(_CACHES.glob("index*")):
        try:
            level, size = (folder / "level").read_text(), (folder / "size").read_text().strip()
            if level.strip() == "2" and size.endswith("K"):
                return int(size[:-1]) << 10
        except (OSError, ValueError):
            continue
    return USUAL_CACHE_BYTES


@cache
def host_features() -> str:
    """Return the CPU features of this machine as Linux lists them; empty where it does not."""
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return ""
    lines = path.read_text().splitlines()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")
