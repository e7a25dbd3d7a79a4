"""Every pass keeps the constraints and attributes of functions that it writes anew."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm
from relayvm.base.diagnostics import RelayError
from relayvm.compiler.autodiff import gradient
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.passes import PASSES, run_passes
from relayvm.ir.equal import structural_equal
from relayvm.ir.printer import print_module

PLUS = "def @plus[A, B, C](%a: A, %b: B) -> C where add(A, B, C) { add(%a, %b) }\n"
MAIN = "def @main(%x: Tensor[(3, 1), float32], %y: Tensor[(4,), float32])"
PROGRAMS = {
    "called": f"{PLUS}{MAIN} {{ (@plus(%x, %y), @plus(1, 2)) }}",
    "local": f"""{MAIN} {{
      let %f = fn [A, B, C](%a: A, %b: B) -> C where multiply(A, B, C) {{ multiply(%a, %b) }};
      (%f(%x, %y), %f(2, 3))
    }}""",
    "a value": f"""{PLUS}
    def @apply(%f: fn (int32, int32) -> int32) {{ %f(1, 2) }}
    {MAIN} {{ (@apply(@plus), @plus(%x, %y)) }}""",
    "a polymorphic value": f"""{PLUS}
    def @both(%f: fn [A, B, C](A, B) -> C where add(A, B, C)) {{ (%f(1, 2), %f(1f, 2f)) }}
    {MAIN} {{
      let %own = fn [A, B, C](%a: A, %b: B) -> C where add(A, B, C) {{ add(%a, %b) }};
      (@both(@plus), @both(%own))
    }}""",
    "a result": f"""
    def @later[A, B, C](%a: A, %b: B) -> (fn () -> C) where add(A, B, C) {{
      fn () {{ add(%a, %b) }}
    }}
    {MAIN} {{ let %f = @later(%x, %y); let %g = @later(1, 2); (%f(), %g()) }}""",
    "around polymorphic functions": f"""
    def @pairs[A, B, C](%a: A, %b: B) where add(A, B, C) {{
      let %g = fn [D](%d: D) {{ (add(%a, %b), %d) }};
      (%g(1), %g(%a))
    }}
    {MAIN} {{ (@pairs(%x, %y), @pairs(1, 2)) }}""",
    "one after the other": f"""
    def @f[A, B, C, D](%a: A, %b: B) where add(A, B, C), greater(C, A, D) {{
      fn (%n: int32) {{
        let %c = add(%a, %b);
        if (%n > 0) {{ greater(%c, %a) }} else {{ greater(add(%a, %b), %a) }}
      }}
    }}
    {MAIN} {{ let %h = @f(%x, %y); (%h(1), %h(0)) }}""",
    "of data": f"""
    def @sums[A](%l: List[A], %s: A) -> A where add(A, A, A) {{
      match (%l) {{ Cons(%h, %t) => @sums(%t, add(%h, %s)), Nil => %s }}
    }}
    {MAIN} {{ (@sums(Cons(1, Cons(2, Nil)), 0), @sums(Cons(%x, Nil), %x)) }}""",
    "of a callee": f"""
    def @g[A, B](%l: List[A]) -> List[B] where negative(A, B) {{
      @map(fn (%a: A) -> B {{ negative(%a) }}, %l)
    }}
    {MAIN} {{ (@hd(@g(Cons(%x, Nil))), @hd(@g(Cons(1, Nil)))) }}""",
    "with sizes": f"""
    def @s[n, A, B](%x: Tensor[(n,), float32], %a: A, %b: B)
      where add(A, Tensor[(n,), float32], B) {{ (%b, add(%a, %x)) }}
    {MAIN} {{ @s(%y, 1f, %y) }}""",
    "with attributes": f"""
    def @plus[A, B, C](%a: A, %b: B, Compiler="none") -> C where add(A, B, C) {{ add(%a, %b) }}
    {MAIN} {{ (@plus(%x, %y), @plus(1, 2)) }}""",
}
STEPS = [
    *([name] for name in PASSES),
    ["eta_expand[expand_global_var=1]", "lambda_lift"],
    ["to_cps", "un_cps"],
    ["to_cps", "lambda_lift", "partial_evaluate"],
    ["to_cps", "defunctionalize"],
    ["lambda_lift", "partial_evaluate", "eliminate_dead_code"],
]


def values(value: object) -> list[tuple[object, ...]]:
    """Return the tensors of a result, with dtypes and shapes."""
    if isinstance(value, tuple):
        return [row for part in value for row in values(part)]
    array = np.asarray(value)
    return [(array.dtype, array.shape, array.tobytes())]


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_pass_keeps_a_program_with_constraints(name: str) -> None:
    args = (np.arange(3, dtype="float32").reshape(3, 1), np.arange(4, dtype="float32"))
    module = infer_types(relayvm.parse(PROGRAMS[name]))
    expected = values(Evaluator(module).call("main", args))
    for steps in STEPS:
        after = run_passes(module, steps)
        again = relayvm.parse(print_module(after, library=True))
        assert infer_types(again) and infer_types(after), steps
        assert values(Evaluator(after).call("main", args)) == expected, steps
        for key, old in module.functions.items():
            new = after.functions.get(key)
            if new is not None:
                assert old.attrs.items() <= new.attrs.items(), (steps, key)
            if new is not None and len(new.type_params) == len(old.type_params):
                assert len(new.type_constraints) == len(old.type_constraints), (steps, key)


def test_constraints_behind_the_type_of_a_function_are_those_of_the_whole() -> None:
    module = infer_types(relayvm.parse(PROGRAMS["a result"]))
    text = print_module(module)
    assert "-> (fn () -> C) where add(A, B, C)" in text
    assert structural_equal(infer_types(relayvm.parse(text)), module)
    kind = "fn [A, B](A) -> (fn () -> B) where negative(A, B)"
    held = relayvm.parse(f"def @f(%g: {kind}) {{ 1 }}")
    assert kind in print_module(held)
    assert structural_equal(relayvm.parse(print_module(held)), held)


def test_the_gradient_of_a_program_with_constraints_is_one() -> None:
    text = PLUS + f"{MAIN} {{ sum(@plus(%x, %y)) }}"
    x, y = np.ones((3, 1), "float32"), np.ones(4, "float32")
    module = run_passes(relayvm.parse(text), ["instantiate"])
    function, module = gradient(module["main"], module)
    module = infer_types(module.with_functions({**module.functions, "main": function}))
    found = Evaluator(module).call("main", (x, y))
    assert np.asarray(found[1][0]).tolist() == [[4], [4], [4]]
    assert np.asarray(found[1][1]).tolist() == [3, 3, 3, 3]


@pytest.mark.parametrize("level", [0, 1, 3])
@pytest.mark.parametrize(
    "held",
    [
        "let %r = ref(@m); (ref_read(%r)(%x, %y), ref_read(%r)(2, 3))",
        "let %l = Cons(@m, Nil); match? (%l) { Cons(%f, _) => (%f(%x, %y), %f(2, 3)) }",
    ],
    ids=["reference", "list"],
)
def test_a_constrained_function_that_is_held_is_refused_with_its_place(held, level):
    text = f"""
    def @m[A, B, C](%a: A, %b: B) -> C where add(A, B, C) {{ add(%a, %b) }}
    def @main(%x: float32, %y: float32) {{ {held} }}
    """
    module = infer_types(relayvm.parse(text))
    with pytest.raises(RelayError) as caught:
        relayvm.compile(module, opt_level=level)
    assert caught.value.code == "polymorphic-entry"
    assert "operands of `add` are of type parameter `A`" in str(caught.value)
    assert caught.value.diagnostics[0].span is not None
