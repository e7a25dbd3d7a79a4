"""`import relayvm` is light, and the machine runs without the compiler."""

from __future__ import annotations

import subprocess
import sys

HEAVY = {"llvmlite", "onnx", "torch", "rich", "cffi", "hypothesis"}


def modules_after(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint(' '.join(sys.modules))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return set(result.stdout.split())


def test_importing_relayvm_imports_nothing_heavy() -> None:
    modules = modules_after("import relayvm")
    assert not HEAVY & modules
    assert "relayvm.compiler" not in modules


def test_the_machine_needs_neither_compiler_nor_language() -> None:
    modules = modules_after("import relayvm.vm.machine, relayvm.vm.executable")
    for room in ("ir", "ops", "kernels", "compiler", "cli"):
        assert f"relayvm.{room}" not in modules
    assert not HEAVY & modules


def test_compiling_and_running_imports_llvmlite_at_first_use_only() -> None:
    assert "llvmlite" not in modules_after("import relayvm; relayvm.compile; relayvm.parse")
