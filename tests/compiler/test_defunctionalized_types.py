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
# Functions that are used at exact and at open sizes.
BOTH = {
    "parameters": """
    def @open(%f: fn (Tensor[(8), float32]) -> Tensor[(?,), float32], %x: Tensor[(8), float32]) {
      %f(%x)
    }
    def @exact(%f: fn (Tensor[(8), float32]) -> Tensor[(16), float32], %x: Tensor[(8), float32])
        -> Array[Tensor[(16), float32]] {
      array.push(array.new(1), %f(%x))
    }
    def @main(%x: Tensor[(8), float32]) { (@open(@double, %x), @exact(@double, %x)) }""",
    "a function of any size": """
    def @use(%f: fn (Tensor[(8), float32]) -> Tensor[(?,), float32], %x: Tensor[(8), float32]) {
      %f(%x)
    }
    def @main(%x: Tensor[(8), float32]) {
      let %h = fn (%a: Tensor[(?,), float32]) { concatenate((%a, %a), axis=0) };
      let %e = fn (%a: Tensor[(8), float32]) { array.push(array.new(1), %a) };
      (@use(%h, %x), %e(%x))
    }""",
    "a reference to a result": """
    def @open(%f: fn (Tensor[(8), float32]) -> Tensor[(?,), float32], %x: Tensor[(8), float32]) {
      %f(%x)
    }
    def @exact(%f: fn (Tensor[(8), float32]) -> Tensor[(16), float32], %x: Tensor[(8), float32])
        -> ref(Tensor[(16), float32]) {
      ref(%f(%x))
    }
    def @main(%x: Tensor[(8), float32]) {
      let %r = @exact(@double, %x);
      ref_write(%r, ref_read(%r) + 1f);
      (@open(@double, %x), ref_read(%r), @open(fn (%a: Tensor[(8), float32]) { %a }, %x))
    }""",
    "a list": """def @main(%x: Tensor[(8), float32]) {
      let %l: List[fn (Tensor[(8), float32]) -> Tensor[(?,), float32]] =
        Cons(@double, Cons(fn (%a: Tensor[(8), float32]) { %a }, Nil));
      match? (%l) { Cons(%f, Cons(%g, _)) => (%f(%x), %g(%x)) }
    }""",
    "two options": """def @main(%x: Tensor[(8), float32]) {
      (match (Some(@double)) { Some(%f) => array.push(array.new(1), %f(%x)), None => array.new(1) },
       match (Some(fn (%a: Tensor[(8), float32]) { %a })) { Some(%f) => %f(%x), None => %x })
    }""",
}
ORDERS = (
    ["defunctionalize"],
    ["to_cps", "defunctionalize"],
    ["defunctionalize", "to_cps"],
    ["defunctionalize", "partial_evaluate"],
    ["to_cps", "defunctionalize", "partial_evaluate"],
)


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


@pytest.mark.parametrize("name", BOTH)
def test_functions_at_exact_and_at_open_sizes_keep_what_they_agree_on(name):
    check(BOTH[name])


def test_what_data_held_at_open_sizes_has_no_known_size():
    text = """
    type Held { Held(Tensor[(?), float32]) }
    def @sum8(%v: Tensor[(8), float32]) -> float32 { sum(%v) }
    def @main(%x: Tensor[(16), float32], %c: bool) {
      if (%c) { match (Held(%x)) { Held(%v: Tensor[(8), float32]) => @sum8(%v) } } else { sum(%x) }
    }"""
    module = infer_types(relayvm.parse(text))
    after = infer_types(run_passes(module, ["partial_evaluate"], verify=True))
    x = np.arange(16, dtype="float32")
    assert Evaluator(after).call("main", (x, np.bool_(False))) == 120
    with pytest.raises(relayvm.Trap):
        Evaluator(after).call("main", (x, np.bool_(True)))


@pytest.mark.slow
@pytest.mark.parametrize("steps", ORDERS, ids="+".join)
def test_examples_keep_exact_types(steps):
    for path in sorted(EXAMPLES.glob("*/*.relay")):
        after = run_passes(infer_types(relayvm.parse(path)), steps)
        assert infer_types(after), path.name
        assert infer_types(relayvm.parse(print_module(after, library=True))), path.name
