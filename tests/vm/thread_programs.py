"""A kernel whose phase is written in C, and what the threads of this process are called."""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
from functools import lru_cache
from pathlib import Path

from relayvm.vm.assembly import assemble
from relayvm.vm.executable import Executable, read_executable
from relayvm.vm.file.codec import encode
from relayvm.vm.library import ffi, lib

from .programs import entry, manifest_line, tensor

ROOT = Path(__file__).parents[2]

PROGRAM = """
kernel k0 "rounds" {
  var d0 "n" operand 0 axis 0
  input dense int64 (d0)
  output dense int64 (d0)
  phase d0
  work d0 * 200000
  | rounds
}
function f0 "main" (b) -> (o) registers 0 1 1 {
    kernel k0, (b0), (o0)
    return (o0)
}
"""


@lru_cache
def phases() -> ctypes.CDLL:
    """Return the compiled phases of thread_kernels.c."""
    source = Path(__file__).with_name("thread_kernels.c")
    made = ROOT / "build" / f"thread_kernels-{hash_of(source)}.so"
    if not made.exists():
        made.parent.mkdir(exist_ok=True)
        command = ["cc", "-std=c11", "-O1", "-fPIC", "-shared", str(source), "-o", f"{made}.new"]
        subprocess.run([*command, "-lpthread"], check=True)
        Path(f"{made}.new").replace(made)
    return ctypes.CDLL(str(made))


def hash_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def rounds(phase: str) -> Executable:
    """Return a program that runs a phase of thread_kernels.c, a round for each element."""
    array = tensor(None, dtype="int64")
    manifest = manifest_line([entry(0, "main", [("x", array)], array)])
    exe = read_executable(encode(assemble(manifest + PROGRAM)))
    address = ctypes.cast(getattr(phases(), phase), ctypes.c_void_p).value
    assert lib.rvm_program_set_phase(exe.handle, 0, 0, ffi.cast("void *", address)) == 0
    return exe


def workers() -> list[str]:
    """Return the names of this process's threads that belong to the pool, in order."""
    names = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
    return sorted(name for name in names if name.startswith("relayvm-"))


def worker_tasks() -> list[int]:
    """Return the system's numbers of those threads."""
    tasks = Path("/proc/self/task").iterdir()
    return [int(t.name) for t in tasks if (t / "comm").read_text().startswith("relayvm-")]
