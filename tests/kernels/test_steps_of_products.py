"""What one step of a product's tile does: the same for known and unknown rows, all in registers."""

from __future__ import annotations

import re

import pytest

from relayvm.base.dims import DimVar, dim_value, symbol
from relayvm.base.native.cpu import target_cpu, without_extras
from relayvm.base.target import Target
from relayvm.kernels import compute as te
from relayvm.kernels.codegen.function import nest_functions
from relayvm.kernels.codegen.llvm import compile_assembly, module_text
from relayvm.kernels.loops import Nest
from relayvm.kernels.lower import Computation, kernel_signature
from relayvm.kernels.printer import print_nest
from relayvm.kernels.schedule import schedule

ROWS = DimVar("m")
WIDE = Target(cpu="znver4")
SUMS = re.compile(r"(acc0\[\d+\]) = fma\((\w+), (\w+), acc0")


def product(rows: int | None, size: int, dtype: str = "float32") -> Computation:
    """Return `x[rows, size] . w[size, size]^T`, of unknown rows where there is no number."""
    m = symbol(ROWS) if rows is None else rows
    x = te.placeholder("x", (m, size), dtype)
    w = te.placeholder("w", (size, size), dtype)

    def element(i: te.ScalarExpr, j: te.ScalarExpr) -> te.ScalarExpr:
        def term(k: te.ScalarExpr) -> te.ScalarExpr:
            return te.cast(x[i, k], "float32") * te.cast(w[j, k], "float32")

        return te.reduce("sum", (size,), term)

    out = te.compute((m, size), element)
    return Computation("product", (x, w), (out,), (ROWS,) if rows is None else ())


def blocks(computation: Computation, nest: Nest, rows: int) -> list[int]:
    """Return how many blocks each phase has for so many rows."""
    signature = kernel_signature(computation, nest, (), (), False)
    return [dim_value(phase, {ROWS: rows}) for phase in signature.phases]


def inner_loops(assembly: str) -> list[list[str]]:
    """Return the instructions of each loop that has none inside."""
    lines = assembly.splitlines()
    labels: dict[str, int] = {}
    found: list[tuple[int, int]] = []
    for number, line in enumerate(lines):
        if match := re.match(r"(\.L\w+):", line):
            labels[match[1]] = number
        elif (match := re.match(r"\tj\w+\t(\.L\w+)", line)) and match[1] in labels:
            found.append((labels[match[1]], number))
    whole = [(a, b) for a, b in found if not any(a < c and d < b for c, d in found)]
    return [lines[a : b + 1] for a, b in whole]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("size", [256, 512, 768, 2048])
def test_known_rows_run_in_the_blocks_and_steps_of_unknown_ones(size: int, dtype: str) -> None:
    computation = product(None, size, dtype)
    unknown = schedule(computation, WIDE)
    step = SUMS.findall(print_nest(unknown))
    assert step
    for rows in (16, 32, 48, 64):
        known = schedule(product(rows, size, dtype), WIDE)
        assert blocks(computation, known, rows) == blocks(computation, unknown, rows)
        assert SUMS.findall(print_nest(known)) == step


@pytest.mark.parametrize("rows", [16, 32, None])
def test_what_the_next_block_needs_is_fetched_before_a_step_loads(rows: int | None) -> None:
    text = print_nest(schedule(product(rows, 512), WIDE))
    steps = [part.splitlines() for part in text.split("for k")[1:]]
    kinds = [[w for line in step for w in ("prefetch ", " = fma(") if w in line] for step in steps]
    assert kinds[0][:1] == ["prefetch "]
    for kind in kinds:
        assert "prefetch " not in kind[kind.index(" = fma(") :]
    # Which part of it is known before the step.
    assert "floor_divide" not in steps[0][1] + steps[0][2] + steps[0][3]


@pytest.mark.parametrize("size", [512, 768])
@pytest.mark.parametrize("rows", [16, 32, 48, None])
def test_partials_of_a_tile_stay_in_registers(rows: int | None, size: int) -> None:
    cpu = without_extras(target_cpu(WIDE))
    nest = schedule(product(rows, size), WIDE)
    assembly = compile_assembly(module_text(nest_functions(nest, "kernel", ()), cpu), cpu)
    steps = [loop for loop in inner_loops(assembly) if any("vfmadd" in line for line in loop)]
    assert steps
    spilled = [a for loop in steps for a in loop if "zmm" in a and "(%rsp" in a]
    assert not spilled
