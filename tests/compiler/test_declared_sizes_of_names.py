"""A size that a name declares and its value may not have is compared by each run: whatever pass
puts values in the place of names, what traps as written still traps, and what fits gives the same.
"""

from __future__ import annotations

import numpy as np
import pytest
from programs_text import typed

import relayvm
from relayvm.base.diagnostics import RelayError, Trap
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.passes import PASSES, run_passes

Q, T3, N = "Tensor[(?), float32]", "Tensor[(3), float32]", "Tensor[(n), float32]"
MAIN = f"def @main(%x: {Q}, %y: {Q})"
# What is given for `x` fits with size 3, and breaks a promise with size 1.
PROGRAMS = {
    "a let": f"{MAIN} {{ let %a: {T3} = %x; %a * %y }}",
    "a let of a call": f"{MAIN} {{ let %a: {T3} = exp(%x); %a * %y }}",
    "a let beside an equal call": f"""
        {MAIN} {{ let %b = exp(%x); let %a: {T3} = exp(%x); (%a * %y, %b) }}""",
    "a let of a known branch": f"""
        {MAIN} {{ let %a: {T3} = if (True) {{ %x }} else {{ %y }}; %a * %y }}""",
    "a let in front of a reference": f"""
        {MAIN} {{ let %a: {T3} = %x; let %r = ref(%a); ref_read(%r) * %y }}""",
    "a let of a tuple": f"{MAIN} {{ let %c: (int32, {T3}) = (1, %x); %c.1 * %y }}",
    "a let of a named tuple": f"""
        {MAIN} {{ let %t = (1, %x); let %c: (int32, {T3}) = %t; %c.1 * %y }}""",
    "a let of a tuple in a tuple": f"""
        {MAIN} {{ let %c: ((int32, {T3}), int32) = ((1, %x), 2); %c.0.1 * %y }}""",
    "a let of a tuple that is open, too": f"""
        {MAIN} {{ let %a: ({T3}, {Q}) = (%x, %y); nn.relu(%a.0) * %a.1 }}""",
    "a parameter": f"def @f(%a: {T3}) {{ sum(%a) }} {MAIN} {{ @f(%x) }}",
    "a parameter that is a tuple": f"""
        def @f(%c: (int32, {T3}), %y: {T3}) {{ %c.1 + %y }}
        {MAIN} {{ @f((1, %x), %y) }}""",
    "a parameter that is a tuple, alone": f"""
        def @f(%c: (int32, {T3})) {{ sum(%c.1) }}
        {MAIN} {{ @f((1, %x)) }}""",
    "a parameter of a function in a function": f"""
        {MAIN} {{ let %f = fn (%c: ({T3}, {Q})) {{ %c.0 * %c.1 }}; %f((%x, %y)) }}""",
    "a parameter of a closure": f"""
        def @f(%y: {Q}) {{ fn (%a: {T3}) {{ %a * %y }} }}
        {MAIN} {{ @f(%y)(%x) }}""",
    "a parameter of the place of a function": f"""
        def @apply(%g: fn ({T3}) -> {Q}, %x: {Q}) {{ %g(%x) }}
        {MAIN} {{ @apply(fn (%a: {Q}) {{ %a * %y }}, %x) }}""",
    "a parameter of a recursive function": f"""
        def @f(%i: int32, %a: {T3}) -> {Q} {{ if (%i == 0) {{ %a }} else {{ @f(%i - 1, %a) }} }}
        {MAIN} {{ @f(2, %x) * %y }}""",
    "a type argument": f"def @id[A](%a: A) -> A {{ %a }} {MAIN} {{ @id[{T3}](%x) * %y }}",
    "a type argument of a tuple": f"""
        def @first[A, B](%a: (A, B)) -> A {{ %a.0 }}
        {MAIN} {{ @first[{T3}, int32]((%x, 1)) * %y }}""",
    "a size of two parameters": f"""
        def @f[n](%a: {N}, %b: {N}) {{ %a + %b }}
        {MAIN} {{ @f(%x, %y) }}""",
    "a size of two parameters of a function in a function": f"""
        {MAIN} {{ let %f = fn [n](%a: {N}, %b: {N}) {{ %a + %b }}; %f(%x, %y) }}""",
    "a size of two parameters of a function without name": f"""
        {MAIN} {{ fn [n](%a: {N}, %b: {N}) {{ %a + %b }}(%x, %y) }}""",
    "a size of two parts of a parameter": f"""
        def @f[n](%b: ({N}, {N})) -> {N} {{ %b.0 * %b.1 }}
        {MAIN} {{ @f((%x, %y)) }}""",
    "a size of the function around": f"""
        def @g[n](%x: {Q}, %y: {N}) {{ let %f = fn (%a: {N}) {{ %a + %y }}; %f(%x) }}
        {MAIN} {{ @g(%x, %y) }}""",
    "a field": f"""
        type B {{ B({T3}) }}
        {MAIN} {{ match (B(%x)) {{ B(%a) => %a + %y }} }}""",
    "a field of an argument": f"""
        type B {{ B({T3}) }}
        def @f(%b: B, %y: {Q}) {{ match (%b) {{ B(%a) => sum(%a) + %y }} }}
        {MAIN} {{ @f(B(%x), %y) }}""",
    "a field of any type": f"""
        type B[A] {{ B(A) }}
        {MAIN} {{ match (B[{T3}](%x)) {{ B(%a) => %a + %y }} }}""",
    "a result": f"def @f(%x: {Q}) -> {T3} {{ %x }} {MAIN} {{ @f(%x) * %y }}",
    "a result that is a tuple": f"""
        def @f(%x: {Q}) -> (int32, {T3}) {{ (1, %x) }}
        {MAIN} {{ @f(%x).1 * %y }}""",
    "a result of a branch": f"""
        def @f(%b: bool, %x: {Q}, %y: {Q}) -> {T3} {{ if (%b) {{ %x }} else {{ %y }} }}
        {MAIN} {{ @f(True, %x, %y) * %y }}""",
}
# Functions of `n`, which only `y` tells, of a list with `x`.
OF_LISTS = {
    "map": f"@map(fn (%a: {N}) {{ %y + %a }}, %l)",
    "map, alone": f"@map(fn (%a: {N}) {{ sum(%a) + sum(%y) }}, %l)",
    "map to itself": f"@map(fn (%a: {N}) -> {N} {{ %a }}, %l)",
    "map of pairs": f"@map(fn (%a: ({N}, int32)) {{ %a.0 }}, @zip(%l, Cons(1, Nil)))",
    "foldl": f"@foldl(fn (%s: {N}, %a: {N}) {{ %s + %a }}, %y, %l)",
    "foldr": f"@foldr(fn (%a: {N}, %s: {N}) {{ %s + %a }}, %y, %l)",
    "filter": f"@filter(fn (%a: {N}) {{ sum(%a) > 0f }}, %l)",
}
FITS = (np.array([2, 3, 4], np.float32), np.ones(3, np.float32))
BREAKS = (np.array([2], np.float32), np.ones(3, np.float32))


def machines(module):
    """Yield runs of a program: as it is, at each level, and after each pass that changes it."""
    yield "evaluator", lambda *args: Evaluator(module).call("main", args)
    for level in range(4):
        yield f"level {level}", machine(module, level)
    for name in PASSES:
        try:
            after = run_passes(module, [name])
        except RelayError:
            continue  # It refuses programs of this kind.
        if after is not module:
            yield name, machine(run_passes(module, [name, "infer_types"]), 0)


def machine(module, level):
    exe = relayvm.compile(module, opt_level=level, entries=["main"])
    return relayvm.VirtualMachine(exe).run


def outcome(run, args):
    try:
        result = run(*args)
    except Trap as trap:
        return trap.code
    parts = result if type(result) is tuple else (result,)
    return [np.round(np.asarray(part), 3).tolist() for part in parts]


@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_that_are_declared_are_compared_after_each_pass(name):
    module = typed(PROGRAMS[name])
    expected = outcome(machine(module, 0), FITS)
    assert expected != "run-time-shape"
    for place, run in machines(module):
        assert (place, outcome(run, FITS)) == (place, expected)
        assert (place, outcome(run, BREAKS)) == (place, "run-time-shape")


@pytest.mark.parametrize("name", OF_LISTS)
def test_functions_of_items_compare_their_sizes_after_each_pass(name):
    module = typed(f"""
        def @f[n](%l: List[{N}], %y: {N}) {{ {OF_LISTS[name]} }}
        {MAIN} {{ @f(Cons(%x, Nil), %y) }}""")
    for place, run in machines(module):
        run(*FITS)
        assert (place, outcome(run, BREAKS)) == (place, "run-time-shape")


def test_a_constant_is_of_the_size_that_its_name_declares():
    module = typed(f"""
        def @f(%a: {T3}, %y: {T3}) {{ %a * %y }}
        def @g(%y: {Q}) {{ let %c: {Q} = full(2f, shape=(1,)); @f(%c, %y) }}
        def @main(%y: {Q}) {{ @g(%y) }}""")
    for place, run in machines(module):
        assert (place, outcome(run, BREAKS[1:])) == (place, "run-time-shape")
