"""Builds the C library: `relayvm.h` and `librelayvm.so`, with the system's C compiler.

`relayvm library --output DIR` calls it. Python is not part of what it makes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from relayvm.base.diagnostics import error

HERE = Path(__file__).parent
HEADER = HERE / "c_api" / "relayvm.h"
LIBRARY = "librelayvm.so"
FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-ffp-contract=off", "-O2", "-fno-math-errno")
OWN = ("-fPIC", "-shared", "-fvisibility=hidden", f"-Wl,-soname,{LIBRARY}", "-Wl,-z,defs")


def sources() -> list[Path]:
    """Return the C files of the library."""
    return [*sorted(HERE.glob("*.c")), *sorted((HERE / "c_api").glob("*.c"))]


def build_library(
    folder: str | os.PathLike[str], compiler: Sequence[str] = ("cc",), flags: Sequence[str] = ()
) -> tuple[Path, Path]:
    """Write the header and the library into a folder, which is made; return their paths.

    `compiler` is a command with its first options. Raises RelayError `no-c-compiler` where there is
    none or it fails, and `unwritable-file`.
    """
    target = Path(folder)
    command = [*compiler, *FLAGS, *OWN, *flags]
    if shutil.which(command[0]) is None:
        raise error("no-c-compiler", f"there is no C compiler `{command[0]}`")
    try:
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target) as work:
            made = Path(work, LIBRARY)
            words = [
                *command,
                f"-I{HERE}",
                *map(str, sources()),
                "-lm",
                "-lpthread",
                "-o",
                str(made),
            ]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode:
                first = next((line for line in done.stderr.splitlines() if "error" in line), "")
                raise error("no-c-compiler", f"`{command[0]}` failed: {first or done.stderr[:200]}")
            os.replace(made, target / LIBRARY)
            shutil.copyfile(HEADER, target / HEADER.name)
    except OSError as reason:
        message = f"`{target}` cannot be written: {reason.strerror or reason}"
        raise error("unwritable-file", message) from None
    return target / HEADER.name, target / LIBRARY
