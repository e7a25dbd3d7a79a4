"""What the emitter leaves out, moves out of loops, and writes shorter; results stay the same."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.base.dtypes import INTEGERS, DType
from relayvm.base.link import link_object
from relayvm.base.native.cpu import target_cpu, without_extras
from relayvm.base.target import Target
from relayvm.kernels.codegen.function import nest_functions
from relayvm.kernels.codegen.llvm import compile_object, module_text
from relayvm.kernels.interpret import interpret
from relayvm.kernels.parser import parse_nest
from relayvm.kernels.scalar_ops import SCALAR_OPS
from relayvm.kernels.scalars.arithmetic import DIVISIONS_BY_POSITIVE
from relayvm.kernels.scalars.numpy_machine import run_program
from tests.kernels.images import LoadedImage, same_bits

TILES = """nest @tiles {
  dims $m, $n
  input in0: float32[$m, $n]
  output out0: float32[$m, $n]
  phase b0 < $m {
    for i0 = 0 to (floor_divide($n, 16) * 16) step 16 {
      out0[b0, i0] = in0[b0, i0]:16
    }
    for i1 = (floor_divide($n, 16) * 16) to $n {
      out0[b0, i1] = in0[b0, i1]
    }
  }
}
"""


def emitted(text: str) -> list[str]:
    cpu = without_extras(target_cpu(Target()))
    return nest_functions(parse_nest(text), "kernel", (), cpu).splitlines()


def loaded(text: str) -> LoadedImage:
    """Return the code of a nest of one phase."""
    cpu = without_extras(target_cpu(Target()))
    functions = nest_functions(parse_nest(text), "kernel", (), cpu)
    code = compile_object(module_text(functions, cpu), cpu)
    return LoadedImage(link_object(code, cpu.triple, cpu.features, {"kernel": ("kernel.0",)}))


def loops(lines: list[str]) -> list[list[str]]:
    """Return the instructions of each loop without another inside, whose label it jumps back to."""
    found = []
    begins: dict[str, int] = {}
    for number, line in enumerate(lines):
        if line.endswith(":"):
            begins[line[:-1]] = number
        for label, begin in begins.items():
            if f"label %{label}," in line and line.strip().startswith("br i1"):
                found.append(lines[begin:number])
    return [a for a in found if not any(b is not a and set(b) < set(a) for b in found)]


def test_what_a_loop_does_not_change_is_computed_before_it() -> None:
    lines = emitted(TILES)
    inner = loops(lines)
    assert len(inner) == 2
    assert not [line for body in inner for line in body if " mul " in line or "sdiv" in line]
    # Rows begin at one place for both loops.
    assert sum(" mul i64 %i" in line for line in lines) == 1


def test_what_may_trap_or_reads_memory_stays_in_its_loop() -> None:
    text = TILES.replace("in0[b0, i1]", "in0[b0, index(trap, i1, $n)]")
    trapping = [body for body in loops(emitted(text)) if any("%miss" in line for line in body)]
    assert len(trapping) == 1
    assert any(" load float," in line for line in trapping[0])


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", sorted(DIVISIONS_BY_POSITIVE))
def test_divisions_by_literals_are_those_by_any_number(name: str, dtype: DType) -> None:
    rng = np.random.default_rng(3)
    edges = [dtype.min, dtype.min + 1, dtype.max - 1, dtype.max, 0, 1]
    inner = rng.integers(dtype.min, dtype.max, 60, dtype.numpy, True)
    values = np.concatenate([np.array(edges, dtype.numpy), inner])
    for divisor in (1, 2, 3, 7, 16, 64, 100, int(dtype.max)):
        program = DIVISIONS_BY_POSITIVE[name]
        found = run_program(lambda x, d=divisor, p=program: p(x, d), [values], [dtype])
        expected = SCALAR_OPS[name](values, np.full_like(values, divisor))
        np.testing.assert_array_equal(found, expected, f"{name} by {divisor}")


def test_vectors_are_divided_by_literals_without_divisions() -> None:
    text = """nest @halves {
  input in0: int32[64]
  output out0: int32[64]
  phase b0 < 4 {
    out0[(b0 * 16)] = floor_divide(in0[(b0 * 16)]:16, broadcast(int32(8), 16))
  }
}
"""
    lines = emitted(text)
    assert any("ashr <16 x i32>" in line for line in lines)
    assert not any("sdiv" in line for line in lines)


def _sines(count: int) -> str:
    lines = [
        f"    out0[((b0 * {count * 8}) + {8 * k})] = sin(in0[((b0 * {count * 8}) + {8 * k})]:8)"
        for k in range(count)
    ]
    size = 16 * count
    head = f"nest @sines {{\n  input in0: float64[{size}]\n  output out0: float64[{size}]\n"
    return head + "  phase b0 < 2 {\n" + "\n".join(lines) + "\n  }\n}\n"


def test_long_functions_that_are_used_often_are_called() -> None:
    text = "\n".join(emitted(_sines(1)))
    assert "@kernel.sin" not in text
    many = "\n".join(emitted(_sines(20)))
    assert many.count("define internal <8 x double> @kernel.sin.float64.8(") == 1
    assert many.count("call <8 x double> @kernel.sin.float64.8(") >= 18
    assert len(many) < 4 * len(text)


def test_what_is_called_has_the_bits_of_what_is_written_in_place() -> None:
    nest = parse_nest(_sines(20))
    data = np.concatenate([np.linspace(-1e6, 1e6, 319), [np.inf]])
    with np.errstate(invalid="ignore"):
        (expected,) = interpret(nest, [data], {})
    found = np.empty_like(data)
    assert loaded(_sines(20)).call("kernel", [data, found], extents=(2,)) == 0
    assert same_bits(found, expected).all()


CHECKED_TWICE = """nest @twice {
  dims $n
  input in0: float32[$n]
  input in1: int64[4]
  output out0: float32[4]
  phase b0 < 4 {
    out0[b0] = (in0[index(trap, in1[b0], $n)] + in0[index(trap, in1[b0], $n)])
  }
}
"""


def test_a_condition_that_was_asked_is_not_asked_again() -> None:
    text = CHECKED_TWICE.replace("out0[b0]", "let v0 = in1[b0]\n    out0[b0]")
    text = text.replace("trap, in1[b0]", "trap, v0")
    assert sum(line.startswith("miss") for line in emitted(text)) == 1
    # What is read from memory may have changed.
    assert sum(line.startswith("miss") for line in emitted(CHECKED_TWICE)) == 2


def test_a_condition_that_was_asked_in_an_arm_is_asked_again_behind_it() -> None:
    access = "in0[index(trap, v0, $n)]"
    text = CHECKED_TWICE.replace(
        "out0[b0] = (in0[index(trap, in1[b0], $n)] + in0[index(trap, in1[b0], $n)])",
        f"let v0 = in1[b0]\n    if less(b0, 2) {{ out0[b0] = {access} }}\n    out0[b0] = {access}",
    )
    assert sum(line.startswith("miss") for line in emitted(text)) == 2


@pytest.mark.parametrize("dtype", ["int8", "bool", "float16", "float32", "int64"])
@pytest.mark.parametrize("mask", ["", "?mask((3 - b0), 32)"], ids=["whole", "masked"])
def test_an_axis_of_size_1_is_read_once_for_all_lanes(dtype: str, mask: str) -> None:
    text = f"""nest @rows {{
  input in0: {dtype}[4, 32] strided
  output out0: {dtype}[4, 32]
  phase b0 < 4 {{
    out0[b0, 0] = in0[b0, 0]:32{mask}
  }}
}}
"""
    lines = emitted(text)
    assert not [line for line in lines if "masked.gather" in line]
    image = loaded(text)
    rows = (np.arange(128).reshape(4, 32) % 3).astype(dtype)
    for array in (rows, np.broadcast_to(rows[:, :1], rows.shape)):
        wanted = np.zeros_like(rows)
        for k, row in enumerate(array):
            passed = max(3 - k, 0) if mask else 32
            wanted[k, :passed] = row[:passed]
        found, strides = np.empty_like(rows), [s // array.itemsize for s in array.strides]
        assert image.call("kernel", [array, found], strides, extents=(4,)) == 0
        assert same_bits(found, wanted).all()
