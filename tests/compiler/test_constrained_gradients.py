"""Gradients of programs with constraints on types are those of the same programs without."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm
from relayvm import relay
from relayvm.base.diagnostics import RelayError
from relayvm.compiler.autodiff import first_order_gradient, gradient
from relayvm.compiler.infer_types import infer_types
from relayvm.ir.module import Module

MAIN = "def @main(%x: Tensor[(3, 1), float32], %y: Tensor[(4,), float32])"
PLUS = "def @f[A, B, C](%a: A, %b: B) -> C where multiply(A, B, C) { multiply(%a, %b) }\n"
PLAIN = f"{MAIN} {{ sum(multiply(%x, %y)) }}"
# Each program, and the same without constraints.
PROGRAMS = {
    "a global function": (f"{PLUS}{MAIN} {{ sum(@f(%x, %y)) }}", PLAIN),
    "a local function": (
        f"""{MAIN} {{
          let %f = fn [A, B, C](%a: A, %b: B) -> C where multiply(A, B, C) {{ multiply(%a, %b) }};
          sum(%f(%x, %y))
        }}""",
        PLAIN,
    ),
    "two instances": (
        f'{PLUS}{MAIN} {{ sum(@f(@f(%x, %x), @f(%y, 2f))) + cast(@f(2, 3), dtype="float32") }}',
        f"{MAIN} {{ sum(multiply(multiply(%x, %x), multiply(%y, 2f))) + 6f }}",
    ),
    "one through another": (
        f"""{PLUS}def @g[A, B](%a: A) -> B where multiply(A, A, B), negative(B, B) {{
          negative(@f(%a, %a))
        }}
        {MAIN} {{ sum(@g(%x)) + sum(@g(%y)) }}""",
        f"{MAIN} {{ sum(negative(multiply(%x, %x))) + sum(negative(multiply(%y, %y))) }}",
    ),
    "recursion over data": (
        f"""def @s[A](%l: List[A], %s: A) -> A where multiply(A, A, A) {{
          match (%l) {{ Cons(%h, %t) => @s(%t, multiply(%h, %s)), Nil => %s }}
        }}
        {MAIN} {{ sum(@s(Cons(%x, Cons(%x, Nil)), %x)) + sum(@s(Cons(%y, Nil), %y)) }}""",
        f"{MAIN} {{ sum(multiply(%x, multiply(%x, %x))) + sum(multiply(%y, %y)) }}",
    ),
    "beside polymorphic functions": (
        f"""{PLUS}def @pair[A](%a: A) {{ (%a, Some(%a)) }}
        {MAIN} {{
          let %p = @pair(@f(%x, %y));
          match? (%p.1) {{ Some(%v) => sum(%v) + sum(%p.0) }}
        }}""",
        f"{MAIN} {{ sum(multiply(%x, %y)) + sum(multiply(%x, %y)) }}",
    ),
    "a value": (
        f"""{PLUS}def @apply(%f: fn (float32, float32) -> float32, %v: float32) {{ %f(%v, %v) }}
        {MAIN} {{ sum(@f(%x, %y)) + @apply(@f, sum(%x)) }}""",
        f"{MAIN} {{ sum(multiply(%x, %y)) + multiply(sum(%x), sum(%x)) }}",
    ),
    "open sizes": (
        f"""def @g[A, B](%a: A, %b: B) -> A where multiply(A, B, A) {{ multiply(%a, %b) }}
        {MAIN} {{ sum(@g(%x, %y)) }}""",
        PLAIN,
    ),
}
ARGS = (np.arange(3, dtype=np.float32).reshape(3, 1), np.arange(4, dtype=np.float32) - 1)


def differentiated(module: Module, times: int) -> Module:
    """Return the module whose `main` gives the gradients of what it gave, summed before again."""
    for _ in range(times):
        function, module = gradient(module["main"], module)
        module = infer_types(module.with_functions({**module.functions, "main": function}))
    return module


def leaves(value: object) -> list[np.ndarray]:
    if isinstance(value, tuple):
        return [leaf for part in value for leaf in leaves(part)]
    return [np.asarray(value)]


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("name", PROGRAMS)
def test_constraints_change_no_gradient(name: str, times: int) -> None:
    found = []
    for text in PROGRAMS[name]:
        module = differentiated(infer_types(relayvm.parse(text)), times)
        found.append(leaves(relayvm.VirtualMachine(relayvm.compile(module)).run(*ARGS)))
    constrained, plain = found
    assert len(constrained) == len(plain)
    for a, b in zip(constrained, plain):
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_by_the_names_of_the_original_infer(name: str) -> None:
    module = relay.fromtext(f'#[version = "0.0.5"]\n{PROGRAMS[name][0]}')
    module["main"] = relay.transform.gradient(module["main"], mod=module)
    typed = relay.transform.InferType()(module)
    result = relay.create_executor("debug", mod=typed).evaluate()(*ARGS)
    assert result[1][0].numpy().shape == (3, 1)


def test_calls_have_no_gradient_of_first_order_with_constraints_or_without() -> None:
    module = relay.fromtext(f'#[version = "0.0.5"]\n{PROGRAMS["a global function"][0]}')
    with pytest.raises(RelayError) as failure:
        relay.transform.gradient(module["main"], mod=module, mode="first_order")
    assert failure.value.code == "no-gradient"


def test_a_constrained_function_beside_straight_line_code_is_no_matter_of_its_gradient() -> None:
    module = infer_types(relayvm.parse(PLUS + PLAIN))
    function = first_order_gradient(module["main"], module)
    typed = infer_types(module.with_functions({**module.functions, "main": function}))
    assert typed["main"].checked_type is not None


def test_a_constrained_function_of_unknown_types_has_no_gradient() -> None:
    text = (
        PLUS
        + f"""{MAIN} {{
      let %r = ref(@f); sum(ref_read(%r)(%x, %y)) + ref_read(%r)(2f, 3f)
    }}"""
    )
    module = infer_types(relayvm.parse(text))
    with pytest.raises(RelayError) as failure:
        gradient(module["main"], module)
    assert failure.value.code == "no-gradient"
