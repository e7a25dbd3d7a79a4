"""The C sources are free of warnings; a missing extension says how to build it; vm stands alone."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

from relayvm.vm.runtime.build import sources

RUNTIME = Path(__file__).parents[2] / "relayvm" / "vm" / "runtime"
WARNINGS = ["-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Wmissing-prototypes", "-Werror"]


@pytest.mark.slow
@pytest.mark.parametrize("flags", [[], ["-DRVM_STRESS"]], ids=["normal", "stress"])
def test_our_c_compiles_without_warnings(flags):
    includes = [f"-I{RUNTIME}"]
    for folder in (sysconfig.get_paths()["include"], np.get_include()):
        includes += ["-isystem", folder]
    command = ["gcc", "-std=c11", "-D_GNU_SOURCE", "-fsyntax-only", *WARNINGS, *flags, *includes]
    done = subprocess.run([*command, *sources()], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_no_c_file_is_longer_than_500_lines():
    files = [p for p in RUNTIME.rglob("*.[ch]") if p.parent.name != "generated"]
    assert len(files) > 20
    assert [p.name for p in files if len(p.read_text().splitlines()) > 500] == []


def python(code: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env=dict(os.environ, **settings),
        cwd=RUNTIME.parents[2],
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_missing_runtime_names_the_command_that_builds_it():
    done = python("import relayvm.vm.machine", RELAYVM_RUNTIME="other")
    assert "error[runtime-not-built]" in done.stderr
    assert "help: build it with `python -m relayvm.vm.runtime.build --other`" in done.stderr


def test_the_machine_needs_no_other_room():
    code = (
        "import sys, relayvm.vm.machine, relayvm.vm.executable\n"
        "rooms = ('ir', 'kernels', 'ops', 'compiler', 'cli', 'relay', 'frontends', 'fpga')\n"
        "loaded = {'.'.join(n.split('.')[:2]) for n in sys.modules if n.startswith('relayvm.')}\n"
        "assert not loaded & {f'relayvm.{r}' for r in rooms}, loaded\n"
        "assert not {'llvmlite', 'onnx', 'torch'} & set(sys.modules)\n"
    )
    done = python(code)
    assert done.returncode == 0, done.stderr
