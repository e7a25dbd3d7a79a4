"""A saved file is loaded and run by the machine alone: the compiler is not even imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import relayvm

# All that is loaded besides Python's own library.
MACHINE = ("relayvm", "relayvm.loading", "relayvm.base", "relayvm.vm", "numpy", "_cffi_backend")
PROGRAM = """
def @main(%x: Tensor[(16), float32]) { nn.relu(%x) * 2f + 1f }
def @lengths(%l: List[Tensor[(?), float32]]) -> List[int64] {
  @map(fn (%x: Tensor[(?), float32]) -> int64 { take(shape_of(%x, dtype="int64"), 0) }, %l)
}
def @adder(%k: int64) -> fn (int64) -> int64 { fn (%i: int64) -> int64 { %i + %k } }
def @pick(%x: Tensor[(2), int64], %i: Tensor[(1), int64]) { gather(%x, %i) }
"""
LOAD = "import numpy as np, relayvm\nexe = relayvm.load(sys.argv[1])"
USES = {
    "interpreter": """
relayvm.VirtualMachine(exe, engine="interpreter").run(np.ones(16, np.float32))
""",
    "auto": """
relayvm.VirtualMachine(exe).run(np.ones(16, np.float32))
""",
    "values": """
vm = relayvm.VirtualMachine(exe)
List = exe.adt("List[Tensor[(?), float32]]")
lengths = vm.invoke("lengths", List.Cons(np.ones(3, np.float32), List.Nil()))
assert lengths.fields[0] == 3 and "Cons" in repr(lengths)
assert vm.invoke("adder", 2)(5) == 7
""",
    "dlpack": """
class Lent:
    def __init__(self, array): self.array = array
    def __dlpack__(self, **how): return self.array.__dlpack__(**how)
    def __dlpack_device__(self): return self.array.__dlpack_device__()
assert relayvm.VirtualMachine(exe).run(Lent(np.ones(16, np.float32)))[3] == 3
""",
    "trap": """
try: relayvm.VirtualMachine(exe).invoke("pick", np.zeros(2, np.int64), np.array([5]))
except relayvm.Trap as trap: assert "index 5 is outside" in str(trap)
""",
    "mistakes": """
vm = relayvm.VirtualMachine(exe)
for call in (
    lambda: vm.run(np.ones(15, np.float32)),
    lambda: vm.run(x=np.ones(16)),
    lambda: vm.invoke("other"),
    lambda: exe.adt("Tree"),
):
    try: call()
    except relayvm.RelayError as mistake: str(mistake)
    else: raise AssertionError
""",
    "look": """
exe.manifest, exe.disassemble(), exe.to_bytes(), repr(exe)
""",
}
DAMAGED = """
import relayvm
data = open(sys.argv[1], "rb").read()
wrong = [b"", b"nonsense", data[:500], data[:300] + bytes([data[300] ^ 1]) + data[301:], "/no/file"]
for what in wrong:
    try: relayvm.load(what)
    except relayvm.RelayError as mistake: assert "error[" in str(mistake)
    else: raise AssertionError
"""
COMMAND = """
from relayvm.cli.main import main
assert main(["run", sys.argv[1], "--random"]) == 0
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "a.rvm"
    entries = ["main", "lengths", "adder", "pick"]
    relayvm.compile(relayvm.parse(PROGRAM), entries=entries).save(path)
    return path


def others_after(code: str, path: Path, **settings: str) -> set[str]:
    """Return the modules that a fresh process loads beyond Python's library and the machine."""
    words = [
        f"import sys; before = set(sys.modules)\n{code}\nprint(*sys.modules.keys() - before)",
        str(path),
    ]
    done = subprocess.run(
        [sys.executable, "-c", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **settings},
    )
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.splitlines()[-1].split()
    assert "relayvm.vm.executable" in loaded
    return {m for m in loaded if m.split(".")[0] not in sys.stdlib_module_names and not _is_own(m)}


def _is_own(module: str) -> bool:
    within = (name for name in MACHINE if name != "relayvm")
    of_numpy = module.startswith(("_cython_", "cython_runtime"))
    return of_numpy or module in MACHINE or any(module.startswith(f"{name}.") for name in within)


@pytest.mark.parametrize("use", USES)
def test_running_a_saved_file_loads_the_machine_alone(use: str, saved: Path) -> None:
    code = f"{LOAD}{USES[use]}"
    assert others_after(code, saved) == set()


def test_code_that_is_trusted_needs_no_cache(saved: Path, tmp_path: Path) -> None:
    code = (
        f"import numpy as np, relayvm\nexe = relayvm.load(sys.argv[1], native=True)\n{USES['auto']}"
    )
    assert others_after(code, saved, RELAYVM_CACHE=str(tmp_path)) == set()


def test_files_that_are_refused_need_no_compiler(saved: Path) -> None:
    assert others_after(DAMAGED, saved) == set()


def test_the_command_run_loads_its_own_room_and_the_machine(saved: Path) -> None:
    found = {m for m in others_after(COMMAND, saved) if m.split(".")[:2] != ["relayvm", "cli"]}
    assert found == set()


def test_what_no_cache_holds_is_compiled_by_the_room_of_kernels(
    saved: Path, tmp_path: Path
) -> None:
    code = f"{LOAD}{USES['auto']}"
    others = others_after(code, saved, RELAYVM_CACHE=str(tmp_path))
    rooms = {m.split(".")[1] for m in others if m.startswith("relayvm.")}
    assert rooms == {"kernels"}
    assert others_after(code, saved, RELAYVM_CACHE=str(tmp_path)) == set()
