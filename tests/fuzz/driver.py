"""The machine as a program of its own, under ASan and UBSan, that runs files of executables."""

from __future__ import annotations

import hashlib
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RUNTIME = ROOT / "relayvm" / "vm" / "runtime"
SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-DRVM_STRESS", "-O1", "-g1", "-fno-omit-frame-pointer"]

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="the driver needs gcc")


def build_driver(
    compiler: Sequence[str] = ("gcc",), flags: Sequence[str] = SANITIZE, link: Sequence[str] = ()
) -> Path:
    """Return the driver, compiled once for each state of its sources and each set of flags."""
    sources = [*sorted(RUNTIME.glob("*.c")), Path(__file__).with_name("fuzz_main.c")]
    digest = hashlib.sha256(repr((compiler, flags, link)).encode())
    for path in [*sources, *sorted(RUNTIME.glob("**/*.h")), *sorted(RUNTIME.glob("**/*.inc"))]:
        digest.update(path.read_bytes())
    folder = ROOT / "build" / "fuzz" / digest.hexdigest()[:16]
    made = folder / "fuzz_main"
    if made.exists():
        return made
    folder.mkdir(parents=True, exist_ok=True)
    # Several test processes may build at once; each in a folder of its own.
    with tempfile.TemporaryDirectory(dir=folder) as own:

        def compile_one(source: Path) -> Path:
            target = Path(own) / f"{source.stem}.o"
            options = [*FLAGS, *flags, f"-I{RUNTIME}", "-c", str(source), "-o", str(target)]
            subprocess.run([*compiler, *options], check=True)
            return target

        with ThreadPoolExecutor(2) as pool:
            objects = list(pool.map(compile_one, sources))
        libraries = ["-lm", "-lpthread", "-o", f"{own}/{made.name}"]
        subprocess.run([*compiler, *flags, *link, *map(str, objects), *libraries], check=True)
        Path(own, made.name).rename(made)
    return made


def run(
    driver: Path,
    files: list[bytes],
    folder: Path,
    emulator: Sequence[str] = (),
    codes: Sequence[bytes] = (),
    engine: str = "",
) -> list[str]:
    """Return what the driver says of each file; fails if a sanitizer stopped it.

    With an `engine`, `codes` are the compiled code of each file, as `fuzz_main.c` reads it.
    """
    path = folder / "files"
    behind = codes or [b""] * len(files)
    path.write_bytes(b"".join(struct.pack("<I", len(f)) + f + c for f, c in zip(files, behind)))
    command = [*emulator, driver, path, *([engine] if engine else [])]
    done = subprocess.run(command, capture_output=True, timeout=240, check=False)
    lines = done.stdout.decode(errors="replace").split("\n")[:-1]
    if done.returncode != 0:
        (ROOT / "build" / "fuzz" / "failing.rvm").write_bytes(files[len(lines)])
        number = len(lines)
        told = done.stderr.decode(errors="replace")
        pytest.fail(f"build/fuzz/failing.rvm, number {number}, stops the driver\n{told}")
    return lines
