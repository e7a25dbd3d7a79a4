"""What `defunctionalize` leaves has the types that inference finds anew."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import relayvm
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.passes import run_passes
from relayvm.ir.printer import print_module

EXAMPLES = Path(relayvm.__file__).parents[1] / "examples"
NAMES = ("tensor_arrays/lstm_states", "seq2seq/bidirectional", "closures/pipeline")


@pytest.mark.parametrize("name", NAMES)
def test_sizes_inside_of_data_types_are_found_again(name):
    module = run_passes(relayvm.parse(EXAMPLES / f"{name}.relay"), ["infer_types"])
    lowered = run_passes(module, ["defunctionalize"], verify=True)
    assert infer_types(relayvm.parse(print_module(lowered, library=True)))


DOUBLE = """
def @double(%p: Tensor[(8), float32]) -> Tensor[(16), float32] { concatenate((%p, %p), axis=0) }
def @id[A](%x: A) -> A { %x }
"""
# Functions of several sizes, whose results are held where sizes cannot be compared.
EXACT = {
    "array": """def @main(%x: Tensor[(8), float32]) -> Array[Tensor[(16), float32]] {
      array.push(array.new(1), @id(@double(@id(%x))))
    }""",
    "reference": """def @main(%x: Tensor[(8), float32]) -> Tensor[(16), float32] {
      let %r = ref(@id(@double(@id(%x))));
      ref_write(%r, @id(ref_read(%r)) + 1f);
      ref_read(%r)
    }""",
    "local": """def @main(%x: Tensor[(8), float32]) -> Array[Tensor[(16), float32]] {
      let %f = fn (%a: Tensor[(8), float32]) { array.push(array.new(1), @double(%a)) };
      let %g = fn (%a: Tensor[(16), float32]) { array.push(array.new(1), %a + 1f) };
      let %h = if (sum(%x) > 0f) { %f } else { fn (%a: Tensor[(8), float32]) { %f(%a) } };
      %g(array.get(%h(%x), 0))
    }""",
}
# Functions that flow where others of open sizes are declared: these share one data type.
OPEN = {
    "parameter": """
    def @at(%f: fn (Tensor[(8), float32]) -> Tensor[(?,), float32], %x: Tensor[(8), float32]) {
      %f(%x)
    }
    def @main(%x: Tensor[(8), float32]) {
      (@at(@double, %x), @at(fn (%a: Tensor[(8), float32]) { %a }, %x), @double(%x))
    }""",
    "choice": """def @main(%x: Tensor[(8), float32]) {
      let %f = if (sum(%x) > 0f) { @double } else { fn (%a: Tensor[(8), float32]) { %a } };
      %f(%x)
    }""",
    "array": """def @main(%x: Tensor[(8), float32]) {
      let %l: Array[fn (Tensor[(8), float32]) -> Tensor[(?,), float32]] =
        array.push(array.push(array.new(2), @double), fn (%a: Tensor[(8), float32]) { %a });
      (array.get(%l, 0)(%x), array.get(%l, 1)(%x))
    }""",
    "result": """
    def @pick(%n: float32) -> fn (Tensor[(8), float32]) -> Tensor[(?,), float32] {
      if (%n > 0f) { @double } else { fn (%a: Tensor[(8), float32]) { %a } }
    }
    def @main(%x: Tensor[(8), float32]) { @pick(sum(%x))(%x) }""",
    "function of functions": """
    def @twice(%g: fn (fn (Tensor[(?,), float32]) -> float32) -> float32) {
      %g(fn (%a: Tensor[(?,), float32]) { sum(%a) })
    }
    def @main(%x: Tensor[(8), float32]) {
      @twice(fn (%s: fn (Tensor[(8), float32]) -> float32) { %s(%x) })
    }""",
    "sizes of a caller": """
    def @use[n](%f: fn (Tensor[(n,), float32]) -> float32, %x: Tensor[(n,), float32]) { %f(%x) }
    def @main(%x: Tensor[(8), float32]) {
      (@use(fn (%a: Tensor[(8), float32]) { sum(%a) }, %x),
       @use(fn (%a: Tensor[(16), float32]) { max(%a) }, @double(%x)))
    }""",
}
ORDERS = (["defunctionalize"], ["to_cps", "defunctionalize"], ["defunctionalize", "to_cps"])


def flat(value: object) -> list[object]:
    """Return what a value is made of."""
    if isinstance(value, (tuple, list)):
        return [row for part in value for row in flat(part)]
    if hasattr(value, "fields"):
        return [value.tag, *flat(tuple(value.fields))]
    array = np.asarray(value)
    return [array.dtype, array.shape, array.tobytes()]


def check(text: str) -> None:
    x = np.arange(8, dtype="float32")
    module = infer_types(relayvm.parse(DOUBLE + text))
    expected = flat(Evaluator(module).call("main", (x,)))
    for steps in ORDERS:
        after = run_passes(module, steps, verify=True)
        again = infer_types(relayvm.parse(print_module(after, library=True)))
        assert flat(Evaluator(again).call("main", (x,))) == expected, steps
        machine = relayvm.VirtualMachine(relayvm.compile(after))
        assert machine.run(x) is not None


@pytest.mark.parametrize("name", EXACT)
def test_functions_of_different_sizes_stay_apart(name):
    check(EXACT[name])


@pytest.mark.parametrize("name", OPEN)
def test_functions_that_flow_where_sizes_are_open_are_of_one_type(name):
    check(OPEN[name])


@pytest.mark.slow
@pytest.mark.parametrize("steps", ORDERS, ids="+".join)
def test_examples_keep_exact_types(steps):
    for path in sorted(EXAMPLES.glob("*/*.relay")):
        after = run_passes(infer_types(relayvm.parse(path)), steps)
        assert infer_types(after), path.name
        assert infer_types(relayvm.parse(print_module(after, library=True))), path.name
