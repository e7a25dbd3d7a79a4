"""The machine under the torture build and the sanitizers, and with failing memory."""

from __future__ import annotations

import pytest

from tests.stress.variants import run

MACHINE_TESTS = [
    f"tests/vm/test_{name}.py"
    for name in (
        "machine",
        "threads",
        "limits",
        "traps",
        "values",
        "kernel_call",
        "object_instructions",
        "memory",
        "compiled_arrays",
        "shared_cycles",
        "misuse",
        "trace",
    )
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
@pytest.mark.parametrize("variant", ["stress", "sanitize"])
def test_every_failing_allocation_is_a_trap_and_leaves_nothing(variant):
    done = run(variant, "-m", "tests.stress.sweep")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "'matmul': " in done.stdout
