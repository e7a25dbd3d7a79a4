"""The machine under the torture build and the sanitizers, and with failing memory."""

from __future__ import annotations

import pytest

from tests.stress.variants import run

MACHINE_TESTS = [
    f"tests/vm/test_{name}.py"
    for name in (
        "machine",
        "fused",
        "threads",
        "limits",
        "traps",
        "values",
        "returned_sizes",
        "kernel_call",
        "object_instructions",
        "memory",
        "compiled_arrays",
        "shared_cycles",
        "misuse",
        "trace",
    )
]
# Under the sanitizers these begin with compilation by LLVM, which takes long there.
COMPILED_TESTS = [
    *MACHINE_TESTS,
    *(f"tests/vm/test_{name}.py" for name in ("jit", "jit_auto", "cell_memory")),
]
WORD_TESTS = ["tests/vm/test_word_instructions.py"]


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["stress", "sanitize"])
def test_the_machine_holds_under(variant):
    tests = MACHINE_TESTS + (WORD_TESTS if variant == "sanitize" else [])
    skipped = ["-m", "not slow", "-k", "not dlpack"]
    done = run(variant, "-m", "pytest", *tests, *skipped)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["", "stress", "sanitize"])
def test_the_machine_holds_as_native_code(variant, monkeypatch):
    monkeypatch.setenv("RELAYVM_ENGINE", "jit")
    skipped = ["-m", "not slow", "-k", "not dlpack"]
    done = run(variant, "-m", "pytest", *COMPILED_TESTS, *skipped)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.slow
def test_examples_and_hard_programs_hold_as_native_code(monkeypatch):
    monkeypatch.setenv("RELAYVM_ENGINE", "jit")
    tests = ["tests/examples", "tests/errors", "tests/property/test_machine_programs.py"]
    done = run("", "-m", "pytest", *tests)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["interpreter", "jit"])
@pytest.mark.parametrize("variant", ["stress", "sanitize"])
def test_every_failing_allocation_is_a_trap_and_leaves_nothing(variant, engine, monkeypatch):
    monkeypatch.setenv("RELAYVM_ENGINE", engine)
    done = run(variant, "-m", "tests.stress.sweep")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "'matmul': " in done.stdout
