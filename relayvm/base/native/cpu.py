"""The CPUs that kernels are compiled for: what a target means to LLVM, and what the host is.

x86-64 is compiled for one of two levels, whatever the CPU's name, so that images are the same for
all CPUs of a level and the features they need are few and known. Needs no LLVM.
"""

from __future__ import annotations

import functools
import platform
from dataclasses import dataclass, replace

from relayvm.base.diagnostics import error
from relayvm.base.target import X86_LEVELS, Target

_CPU_LEVELS = {
    **dict.fromkeys(("haswell", "broadwell", "skylake", "alderlake"), "x86-64-v3"),
    **dict.fromkeys(("znver1", "znver2", "znver3"), "x86-64-v3"),
    **dict.fromkeys(("skylake-avx512", "cascadelake", "icelake-server"), "x86-64-v4"),
    **dict.fromkeys(("sapphirerapids", "znver4", "znver5"), "x86-64-v4"),
    **{level: level for level in X86_LEVELS},
}
# What CPUs of a level may have beyond it, and what kernels gain much from.
_EXTRAS = {"x86-64-v4": ("avx512vnni",)}
_WITH_EXTRAS = frozenset(
    ("cascadelake", "icelake-server", "sapphirerapids", "znver4", "znver5"),
)
# How Linux spells a feature in /proc/cpuinfo where it differs from LLVM.
_LINUX_NAMES = {
    "lzcnt": "abm",
    "bmi": "bmi1",
    "sse4.2": "sse4_2",
    "avx512vnni": "avx512_vnni",
    "dotprod": "asimddp",
}


@dataclass(frozen=True)
class Cpu:
    """What LLVM is told of a CPU; `features` are those without which the code must not run."""

    triple: str
    name: str
    features: tuple[str, ...]
    llvm_features: tuple[str, ...] = ()
    vector_bits: int = 0

    @property
    def description(self) -> str:
        """One line that says all that code depends on; part of cache keys."""
        return f"{self.triple} {self.name} {','.join(self.llvm_features)} {self.vector_bits}"


@functools.lru_cache(maxsize=64)
def target_cpu(target: Target) -> Cpu:
    """Return the CPU that a target means; empty fields mean the host's.

    Raises RelayError `unknown-target` for a CPU or architecture that no code is generated for.
    """
    architecture = (target.triple or host_triple()).split("-")[0]
    triple = target.triple or host_triple()
    extra = tuple(f.lstrip("+") for f in target.features.split(",") if f)
    if architecture in ("aarch64", "arm64"):
        # Darwin and Windows keep x18 for themselves.
        llvm_features = (*(f"+{f}" for f in extra), "+reserve-x18")
        return Cpu(triple, target.cpu or "generic", ("neon", *extra), llvm_features)
    if architecture != "x86_64":
        raise error(
            "unknown-target", f"no code is generated for `{architecture}`, only x86_64 and aarch64"
        )
    level = _x86_level(target)
    extra += tuple(f for f in _extras(target, level) if f not in extra)
    features = tuple(sorted({*X86_LEVELS[level], *extra}))
    # `movbe` belongs to the levels, but GCC's run-time check, which the loader uses, lacks it.
    llvm_features = (*(f"+{f}" for f in extra), "-movbe")
    return Cpu(triple, level, features, llvm_features, 512 if level == "x86-64-v4" else 256)


def _x86_level(target: Target) -> str:
    if target.cpu:
        if target.cpu not in _CPU_LEVELS:
            known = ", ".join(sorted(_CPU_LEVELS))
            raise error("unknown-target", f"there is no CPU `{target.cpu}`; known are {known}")
        return _CPU_LEVELS[target.cpu]
    if target.triple and target.triple.split("-")[0] != platform.machine():
        return "x86-64-v3"
    features = host_features()
    for level, needed in reversed(X86_LEVELS.items()):
        if features.issuperset(needed):
            return level
    missing = ", ".join(f for f in X86_LEVELS["x86-64-v3"] if f not in features)
    raise error("unknown-target", f"this CPU lacks {missing}, which kernels need")


def _extras(target: Target, level: str) -> tuple[str, ...]:
    """Return the features beyond its level that a target is known to have."""
    if target.cpu:
        return _EXTRAS.get(level, ()) if target.cpu in _WITH_EXTRAS else ()
    if target.triple and target.triple.split("-")[0] != platform.machine():
        return ()
    return tuple(f for f in _EXTRAS.get(level, ()) if f in host_features())


def without_extras(cpu: Cpu) -> Cpu:
    """Return a CPU without what it has beyond its level: code that does not need it runs on all
    CPUs of the level."""
    extras = _EXTRAS.get(cpu.name, ())
    return replace(
        cpu,
        features=tuple(f for f in cpu.features if f not in extras),
        llvm_features=tuple(f for f in cpu.llvm_features if f.lstrip("+") not in extras),
    )


def dot_signs(cpu: Cpu) -> str:
    """Return of which signs the two factors must be for which a CPU sums products of four bytes in
    one instruction: `mixed`, `same`, or nothing where it has no such instruction.
    """
    if "avx512vnni" in cpu.features:
        return "mixed"
    return "same" if "dotprod" in cpu.features else ""


def host_triple() -> str:
    """Return the triple that images for this machine are compiled for.

    Always a Linux one: images are flat code without a system's object format or library, the same
    everywhere.
    """
    machine = {"arm64": "aarch64", "AMD64": "x86_64"}.get(platform.machine(), platform.machine())
    return f"{machine}-unknown-linux-gnu"


@functools.lru_cache(maxsize=1)
def host_features() -> frozenset[str]:
    """Return those features of this CPU that are asked for here, in LLVM's spelling."""
    flags = cpu_flags()
    known = (*X86_LEVELS["x86-64-v4"], *(f for extras in _EXTRAS.values() for f in extras))
    return frozenset(f for f in known if _LINUX_NAMES.get(f, f) in flags)


def cpu_flags() -> frozenset[str]:
    """Return the features of this CPU in Linux's spelling; those of its level elsewhere."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:
            for line in lines:
                if line.startswith(("flags", "Features")):
                    return frozenset(line.partition(":")[2].split())
    except OSError:
        pass
    return frozenset(_LINUX_NAMES.get(f, f) for f in X86_LEVELS["x86-64-v3"])
