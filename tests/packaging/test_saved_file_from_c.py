"""A saved Tree-LSTM, run by a host in C: here, and cross-built for AArch64 under an emulator."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import relayvm
from relayvm.base.dtypes import FLOAT32
from relayvm.cli.bench import treelstm
from relayvm.cli.bench.trees import Node, Tree, post_order, read_trees, word_vectors
from relayvm.vm.runtime.build import LANGUAGE
from tests.cross import AARCH64_COMPILER, AARCH64_EMULATOR, needs_aarch64

ROOT = Path(__file__).parents[2]
RUNTIME = ROOT / "relayvm" / "vm" / "runtime"
TREES = read_trees(ROOT / "examples" / "tree_lstm" / "trees.txt")[:5]
AARCH64 = "cpu -mtriple=aarch64-unknown-linux-gnu"

pytestmark = pytest.mark.slow


def build_host(compiler: Sequence[str], folder: Path, *flags: str) -> Path:
    """Compile the runtime with the host program, all in one."""
    sources = [*sorted(RUNTIME.glob("*.c")), Path(__file__).with_name("run_file.c")]
    made = folder / "run_file"
    command = [*compiler, *LANGUAGE, "-O1", *flags, f"-I{RUNTIME}", *map(str, sources)]
    subprocess.run([*command, "-lm", "-lpthread", "-o", str(made)], check=True, timeout=300)
    return made


def compile_for(target: str, path: Path, jit: bool = False) -> relayvm.Executable:
    weights, module = treelstm.make_weights(), relayvm.parse(treelstm.PROGRAM)
    exe = relayvm.compile(module, target=target, params=weights.named(), jit=jit)
    exe.save(path)
    return exe


def values(exe: relayvm.Executable, tree: Tree, vectors: dict[str, np.ndarray]) -> bytes:
    """Return a tree as the host program reads it."""
    layouts = {c.name: c.layout for row in exe.manifest.types for c in row.constructors}
    parts = []
    for node in post_order(tree):
        if isinstance(node, str):
            array = vectors[node]
            header = (FLOAT32.code, array.ndim, array.nbytes)
            parts.append(struct.pack("<cIII2q", b"t", *header, *array.shape) + array.tobytes())
        name = "Node" if isinstance(node, Node) else "Leaf"
        parts.append(struct.pack("<cI", b"c", layouts[name]))
    return b"".join(parts)


def run_trees(command: list[str], exe: relayvm.Executable, path: Path, engine: str) -> list[bytes]:
    vectors = word_vectors(TREES, treelstm.INPUT)
    results = []
    for tree in TREES:
        path.with_suffix(".values").write_bytes(values(exe, tree, vectors))
        words = [*command, path, "main", path.with_suffix(".values")]
        done = subprocess.run(words, capture_output=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stderr.decode() == engine
        results.append(done.stdout)
    return results


@pytest.fixture(scope="module")
def expected() -> list[bytes]:
    """The states of all roots, as the machine gives them in Python."""
    exe = treelstm.compile_program(treelstm.make_weights())
    vectors = word_vectors(TREES, treelstm.INPUT)
    vm = relayvm.VirtualMachine(exe)
    roots = [vm.run(treelstm.to_values(exe, tree, vectors)) for tree in TREES]
    return [b"".join(state.tobytes() for state in root) for root in roots]


ENGINES = {"interpreted": False, "compiled": True}


def test_a_host_in_c_gets_the_bits_of_python(expected: list[bytes], tmp_path: Path) -> None:
    host = build_host(["cc"], tmp_path)
    for engine, jit in ENGINES.items():
        path = tmp_path / f"{engine}.rvm"
        exe = compile_for("cpu", path, jit)
        assert run_trees([str(host)], exe, path, engine) == expected


@pytest.mark.cross
@needs_aarch64
def test_a_file_for_aarch64_gives_the_bits_of_this_host(
    expected: list[bytes], tmp_path: Path
) -> None:
    host = build_host(AARCH64_COMPILER, tmp_path, "-static")
    for engine, jit in ENGINES.items():
        path = tmp_path / f"{engine}.rvm"
        exe = compile_for(AARCH64, path, jit)
        assert run_trees([AARCH64_EMULATOR, str(host)], exe, path, engine) == expected


def test_code_for_another_cpu_does_not_run_here(tmp_path: Path) -> None:
    exe = compile_for(AARCH64, tmp_path / "tree_lstm.rvm")
    with pytest.raises(relayvm.RelayError, match="has no code for this machine"):
        relayvm.VirtualMachine(exe)
    again = relayvm.load(tmp_path / "tree_lstm.rvm", native=True)
    vectors = word_vectors(TREES, treelstm.INPUT)
    assert relayvm.VirtualMachine(again).run(treelstm.to_values(again, TREES[0], vectors))
