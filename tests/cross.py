"""Building programs for AArch64 and running them under an emulator, where both are installed."""

from __future__ import annotations

import importlib.util
import shutil
import sys

import pytest


def _compiler() -> tuple[str, ...]:
    if shutil.which("aarch64-linux-gnu-gcc"):
        return ("aarch64-linux-gnu-gcc",)
    if importlib.util.find_spec("ziglang"):
        return (sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-musl")
    return ()


# A command that compiles and links with `-static`; empty where there is none.
AARCH64_COMPILER = _compiler()
AARCH64_EMULATOR = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static") or ""

needs_aarch64 = pytest.mark.skipif(
    not AARCH64_COMPILER or not AARCH64_EMULATOR,
    reason="needs qemu-user and a cross compiler; `make peers` installs the latter",
)
