"""What `defunctionalize` leaves has the types that inference finds anew."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import relayvm
from relayvm.compiler.autodiff import gradient
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
# Functions of one size each, where a function of any size `n` takes them.
SIZED = {
    "a result": ("{n}) -> Array[{n}]", "%f(%x)", "{a} { array.push(array.new(1), %a + 1f) }"),
    "a continuation": ("{n}) -> {n}", "array.push(array.new(1), %f(%x))", "{a} { %a + 1f }"),
    "a parameter": (
        "Array[{n}]) -> {n}",
        "%f(array.push(array.new(1), %x))",
        "fn (%a: Array[Tensor[(#), float32]]) { array.get(%a, 0) }",
    ),
    "both": (
        "Array[{n}]) -> Array[{n}]",
        "%f(array.push(array.new(1), %x))",
        "fn (%a: Array[Tensor[(#), float32]]) { array.push(%a, array.get(%a, 0)) }",
    ),
    "in a tuple": (
        "{n}) -> (Array[{n}], {n})",
        "let %p = %f(%x); array.get(%p.0, 0) + %p.1",
        "{a} { (array.push(array.new(1), %a), %a) }",
    ),
    "in a list": (
        "{n}) -> List[Array[{n}]]",
        "match? (%f(%x)) { Cons(%h, _) => array.get(%h, 0) }",
        "{a} { Cons(array.push(array.new(1), %a), Nil) }",
    ),
    "a function": (
        "{n}) -> fn ({n}) -> Array[{n}]",
        "%f(%x)(%x)",
        """{a} {
          fn (%b: Tensor[(#), float32]) { array.push(array.new(1), %a + %b) } }""",
    ),
    "a reference": ("{n}) -> ref({n})", "ref_read(%f(%x))", "{a} { ref(%a) }"),
    "a parameter that is a reference": (
        "ref({n})) -> {n}",
        "%f(ref(%x))",
        "fn (%r: ref(Tensor[(#), float32])) { ref_read(%r) }",
    ),
}
HELD = """
type R[A] { R(ref(A)) }
def @get[A](%r: R[A]) -> A { match (%r) { R(%q) => ref_read(%q) } }
def @make[A](%x: A) -> R[A] { R(ref(%x)) }
"""
# References whose size is known where functions are called, or only when the program runs.
RUN = {
    "captured": """def @main[n](%x: Tensor[(n), float32]) -> Tensor[(n), float32] {
      let %r = ref(%x);
      let %f = fn (%z: float32) { ref_write(%r, %x * %z); ref_read(%r) };
      %f(2f) + %f(3f)
    }""",
    "given to continuations": """
    def @sized[n](%v: Tensor[(n), float32]) { @get(@make(%v)) }
    def @open(%v: Tensor[(?), float32]) { @get(@make(%v)) }
    def @main(%x: Tensor[(8), float32]) { (@sized(%x), @sized(@double(%x)), @open(%x)) }""",
    "in data": """
    type W[A] { W(fn (R[A]) -> A) }
    def @at[n](%x: Tensor[(n), float32]) {
      match (W(fn (%r: R[Tensor[(n), float32]]) { @get(%r) })) { W(%f) => %f(@make(%x)) }
    }
    def @main(%x: Tensor[(8), float32]) { (@at(%x), @at(@double(%x))) }""",
    "in functions that call themselves": """
    def @two[n](%x: Tensor[(n), float32], %c: bool) -> Tensor[(n), float32] {
      let %r = @make(%x);
      let %f = fn (%z: float32) { @get(%r) * %z };
      if (%c) { %f(2f) } else { @two(%x, True) + %f(3f) }
    }
    def @main[n](%x: Tensor[(n), float32])
        -> (Tensor[(n), float32], Tensor[(2 * n), float32], float32) {
      (@two(%x, False), @two(concatenate((%x, %x), axis=0), False),
       if (sum(%x) > 100f) { sum(@two(%x, True)) } else { @main(%x * 10f).2 })
    }""",
}
# Sizes without end, and those that only a local function knows.
REFUSED = {
    "growing": """
    def @grow[n](%k: int32, %x: Tensor[(n), float32], %f: fn (R[Tensor[(n), float32]]) -> float32)
        -> float32 {
      if (%k == 0) { %f(@make(%x)) } else {
        let %g = fn (%r: R[Tensor[(2 * n), float32]]) { sum(@get(%r)) };
        @grow(%k - 1, concatenate((%x, %x), axis=0), %g)
      }
    }
    def @main(%x: Tensor[(8), float32]) {
      @grow(2, %x, fn (%r: R[Tensor[(8), float32]]) { sum(@get(%r)) })
    }""",
    "of local functions": """
    def @at(%f: fn [n](Tensor[(n), float32]) -> R[Tensor[(n), float32]], %x: Tensor[(8), float32]) {
      (@get(%f(%x)), @get(%f(@double(%x))))
    }
    def @main(%x: Tensor[(8), float32]) {
      @at(fn [n](%v: Tensor[(n), float32]) { @make(%v) }, %x)
    }""",
}


def at_two_sizes(kind: str, body: str, function: str) -> str:
    """Return a program that calls functions of sizes 8 and 16 in one of size `n`."""
    size = "Tensor[(n,), float32]"
    given = function.replace("{a}", "fn (%a: Tensor[(#), float32])")
    small, large = given.replace("#", "8"), given.replace("#", "16")
    return f"""
    def @s[n](%f: fn ({kind.replace("{n}", size)}, %x: {size}) {{ {body} }}
    def @main(%x: Tensor[(8), float32]) {{ (@s({small}, %x), @s({large}, @double(%x))) }}"""


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


def check(text: str, orders: Sequence[list[str]] = ORDERS) -> None:
    x = np.arange(8, dtype="float32")
    module = infer_types(relayvm.parse(DOUBLE + text))
    expected = flat(Evaluator(module).call("main", (x,)))
    for steps in orders:
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


@pytest.mark.parametrize("name", SIZED)
def test_functions_of_one_size_are_taken_as_those_of_a_symbolic_one(name):
    check(at_two_sizes(*SIZED[name]), ORDERS[:3])


@pytest.mark.parametrize("name", RUN)
def test_references_of_several_sizes_have_functions_of_their_own(name):
    check(HELD + RUN[name], ORDERS[:3])


@pytest.mark.parametrize("steps", ORDERS[:2], ids="+".join)
@pytest.mark.parametrize("name", REFUSED)
def test_references_of_sizes_that_functions_share_are_refused_with_their_place(name, steps):
    module = infer_types(relayvm.parse(DOUBLE + HELD + REFUSED[name]))
    assert Evaluator(module).call("main", (np.ones(8, "float32"),))
    with pytest.raises(relayvm.RelayError, match="whose size cannot be compared") as caught:
        run_passes(module, steps)
    diagnostic = caught.value.diagnostics[0]
    assert diagnostic.code == "polymorphic-entry"
    assert diagnostic.span is not None and diagnostic.help


def test_the_refusal_shows_the_function_and_a_way_out():
    text = HELD + DOUBLE + REFUSED["of local functions"]
    with pytest.raises(relayvm.RelayError) as caught:
        run_passes(infer_types(relayvm.parse(text)), ["defunctionalize"])
    lines = caught.value.diagnostics[0].render().splitlines()
    assert lines[0] == (
        "error[polymorphic-entry]: a function is called as one of those of other sizes, with a "
        "`ref(Tensor[(16), float32])` whose size cannot be compared"
    )
    assert "(@get(%f(%x)), @get(%f(@double(%x))))" in lines[3]
    assert lines[-1] == "help: pass what the reference holds in its place"


@pytest.mark.parametrize("steps", ORDERS[:2], ids="+".join)
def test_gradients_of_functions_in_data_of_several_sizes_become_data(steps):
    text = """
    type F[A] { F(fn (A) -> A) }
    def @go[A](%f: F[A], %x: A) -> A { match (%f) { F(%g) => %g(%g(%x)) } }
    def @s[n](%v: Tensor[(n), float32]) {
      sum(@go(F(fn (%a: Tensor[(n), float32]) { %a * %a }), %v))
    }
    def @main(%x: Tensor[(8), float32]) -> float32 { @s(%x) + @s(@double(%x)) }"""
    module = infer_types(relayvm.parse(DOUBLE + text))
    function, made = gradient(module["main"], module)
    whole = infer_types(made.with_functions({**made.functions, "main": function}))
    after = infer_types(run_passes(whole, steps, verify=True))
    x = np.arange(8, dtype="float32")
    expected = flat(Evaluator(whole).call("main", (x,)))
    assert expected[-1] == (12 * x**3).tobytes()
    assert flat(Evaluator(after).call("main", (x,))) == expected


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
