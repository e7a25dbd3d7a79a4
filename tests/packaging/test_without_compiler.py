"""The package as users install it: the wheel, and an environment without llvmlite."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pytest

import relayvm
from relayvm.cli.bench import treelstm
from relayvm.cli.bench.trees import read_trees, word_vectors

ROOT = Path(__file__).parents[2]
TREES = ROOT / "examples" / "tree_lstm" / "trees.txt"
SOURCES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")

# What a user's program does with a saved file; prints the code of the error without `native`.
PROGRAM = """
import sys
import numpy as np
import relayvm
from relayvm.cli.bench import treelstm
from relayvm.cli.bench.trees import read_trees, word_vectors

path, trees_path, result = sys.argv[1:]
try:
    relayvm.load(path)
except relayvm.RelayError as refusal:
    print(refusal)
exe = relayvm.load(path, native=True)
vm = relayvm.VirtualMachine(exe)
trees = read_trees(trees_path)
vectors = word_vectors(trees, treelstm.INPUT)
roots = [vm.run(treelstm.to_values(exe, tree, vectors)) for tree in trees]
np.save(result, np.array(roots))
assert "llvmlite" not in sys.modules
"""

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Environment:
    """A virtual environment with numpy, cffi and the wheel, and nothing else."""

    folder: Path

    def run(self, *command: object) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, away from the sources, with an empty kernel cache."""
        settings = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
        return subprocess.run(
            [self.folder / "bin" / str(command[0]), *map(str, command[1:])],
            cwd=self.folder,
            env={**settings, "RELAYVM_CACHE": str(self.folder / "cache")},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.pyc")
    shutil.copytree(ROOT / "relayvm", folder / "source" / "relayvm", ignore=ignored)
    for name in SOURCES:
        shutil.copy(ROOT / name, folder / "source")
    options = ["--no-deps", "--no-build-isolation", "--quiet", "--wheel-dir", str(folder)]
    command = [sys.executable, "-m", "pip", "wheel", *options, str(folder / "source")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return next(folder.glob("*.whl"))


def _lend(name: str, packages: Path) -> None:
    """Link what is installed here under a name into the packages of another environment."""
    installed = distribution(name)
    for top in {f.parts[0] for f in installed.files or () if not f.is_absolute()} - {".."}:
        if top != "__pycache__":
            (packages / top).symlink_to(Path(installed.locate_file(top)).resolve())


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    made = Environment(tmp_path_factory.mktemp("user") / "venv")
    subprocess.run([sys.executable, "-m", "venv", made.folder], check=True, timeout=120)
    (packages,) = made.folder.glob("lib/python*/site-packages")
    for name in ("numpy", "cffi", "pycparser"):
        _lend(name, packages)
    pip = ["python", "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    done = made.run(*pip, "--no-deps", "--no-index", wheel)
    assert done.returncode == 0, done.stderr
    return made


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    """A saved Tree-LSTM, and the states of all roots that it gives here."""
    exe = treelstm.compile_program(treelstm.make_weights())
    path = tmp_path_factory.mktemp("saved") / "tree_lstm.rvm"
    exe.save(path)
    trees = read_trees(TREES)
    vectors = word_vectors(trees, treelstm.INPUT)
    vm = relayvm.VirtualMachine(exe)
    return path, np.array([vm.run(treelstm.to_values(exe, t, vectors)) for t in trees])


def test_the_wheel_holds_what_is_read_at_run_time_and_builds_from(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    needed = {
        "relayvm/py.typed",
        "relayvm/ir/std/prelude.rly",
        "relayvm/ir/grammar.md",
        "relayvm/cli/bench/tree_lstm.relay",
    }
    assert needed <= names
    assert any(name.startswith("relayvm/vm/_runtime.") for name in names)
    runtime = ROOT / "relayvm" / "vm" / "runtime"
    parts = [p for p in runtime.rglob("*.*") if p.suffix in (".c", ".h", ".inc")]
    assert len(parts) > 50 and {p.relative_to(ROOT).as_posix() for p in parts} <= names
    packages = {p.parent.relative_to(ROOT).as_posix() for p in ROOT.glob("relayvm/**/__init__.py")}
    assert packages <= {name.rpartition("/")[0] for name in names}


def test_the_command_works_where_the_wheel_is_installed(environment: Environment) -> None:
    assert environment.run("relayvm", "--version").stdout == f"relayvm {relayvm.__version__}\n"
    info = environment.run("relayvm", "info")
    assert info.returncode == 0, info.stderr
    assert "llvmlite  not installed" in info.stdout


def test_the_library_for_c_is_built_from_the_wheel(environment: Environment) -> None:
    done = environment.run("relayvm", "library", "--output", environment.folder / "library")
    assert done.returncode == 0, done.stderr
    made = [Path(line) for line in done.stdout.splitlines()]
    assert [p.name for p in made] == ["relayvm.h", "librelayvm.so"] and all(
        p.exists() for p in made
    )


def test_a_saved_file_gives_the_same_bits_without_llvmlite(
    environment: Environment, saved: tuple[Path, np.ndarray], tmp_path: Path
) -> None:
    path, roots = saved
    done = environment.run("python", "-c", PROGRAM, path, TREES, tmp_path / "roots.npy")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("error[native-not-allowed]: ")
    assert "`native=True`" in done.stdout and "install llvmlite" in done.stdout
    assert np.load(tmp_path / "roots.npy").tobytes() == roots.tobytes()


def test_commands_on_a_saved_file_work_without_llvmlite(
    environment: Environment, saved: tuple[Path, np.ndarray]
) -> None:
    for command in ("verify", "inspect", "disassemble"):
        done = environment.run("relayvm", command, saved[0])
        assert (done.returncode, done.stderr) == (0, ""), command
    done = environment.run("relayvm", "run", saved[0], "--random", "--native")
    assert done.returncode == 0 and done.stdout.startswith("output0: float32[1, 150]")
    done = environment.run("relayvm", "run", saved[0], "--random")
    assert done.returncode == 1 and done.stderr.startswith("error[native-not-allowed]: ")


def test_compiling_without_llvmlite_says_what_is_missing(
    environment: Environment, tmp_path: Path
) -> None:
    path = tmp_path / "small.relay"
    path.write_text("def @main(%x: Tensor[(2), float32]) { tanh(%x) }\n")
    done = environment.run("relayvm", "compile", path)
    assert done.returncode == 1 and "llvmlite" in done.stderr, done.stderr
    assert done.stderr.startswith("error[")
