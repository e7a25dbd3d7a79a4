"""Large programs compile and run: no recursion errors, and twice the program takes about twice the
time.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import relayvm

pytestmark = pytest.mark.slow

# Linear passes give 2; sorting, growing heaps and a noisy machine add to it; quadratic ones give 4.
MOST = 3.2


def compiled(text: str) -> relayvm.VirtualMachine:
    return relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text)))


def cpu_seconds(text: str) -> float:
    # Full collections cost what other tests left on the heap, not what the compiler does.
    gc.collect()
    gc.disable()
    start = time.process_time()
    relayvm.compile(relayvm.parse(text))
    spent = time.process_time() - start
    gc.enable()
    return spent


def let_chain(size: int) -> str:
    lets = "\n".join(f"let %a{i + 1} = subtract(%x, %a{i});" for i in range(size))
    return f"def @main(%x: int32) -> int32 {{ let %a0 = %x;\n{lets}\n%a{size} }}"


def call_chain(size: int) -> str:
    lets = "\n".join(f"let %a{i + 1} = @f(%a{i}, 0);" for i in range(size))
    return f"""
    def @f(%x: int32, %n: int32) -> int32 {{
      if (%n == 0) {{ %x + 1 }} else {{ @f(%x, %n - 1) }}
    }}
    def @main(%a0: int32) -> int32 {{ {lets} %a{size} }}
    """


def nested_calls(size: int) -> str:
    return f"def @main(%x: int32) -> int32 {{ {'add(' * size}%x{', 1)' * size} }}"


def nested_ifs(size: int) -> str:
    heads = "".join(f"if (equal(%x, {i})) {{ {i} }} else {{ " for i in range(size))
    return f"def @main(%x: int32) -> int32 {{ {heads}%x{' }' * size} }}"


def nested_values(size: int) -> str:
    heads = "".join(f"let %v{i} = if (equal(%x, {i})) {{ {i} }} else {{ " for i in range(size))
    ends = "".join(f" }}; add(%v{i}, 1)" for i in reversed(range(size)))
    return f"def @main(%x: int32) -> int32 {{ {heads}%x{ends} }}"


def nested_matches(size: int) -> str:
    """Returns how long a short list is."""
    heads = "".join(f"match (%l{i}) {{ Nil => {i}, Cons(%h{i}, %l{i + 1}) => " for i in range(size))
    return f"""
    def @count(%l0: List[int32]) -> int32 {{ {heads}-1{" }" * size} }}
    def @main(%x: int32) -> int32 {{ @count(Cons(%x, Cons(%x, Nil))) }}
    """


def nested_functions(size: int) -> str:
    heads = "".join(f"let %f{i} = fn (%y{i}: int32) -> int32 {{ " for i in range(size))
    ends = "".join(f" }}; %f{i}(add(%x, {i}))" for i in reversed(range(size)))
    return f"def @main(%x: int32) -> int32 {{ {heads}%x{ends} }}"


def nested_lets(size: int) -> str:
    heads = "".join(f"let %v{i} = {{ " for i in range(size))
    ends = "".join(f" }}; add(%v{i}, 1)" for i in reversed(range(size)))
    return f"def @main(%x: int32) -> int32 {{ {heads}%x{ends} }}"


def many_constructors(size: int) -> str:
    rows = ", ".join(f"C{i}(int32)" for i in range(size))
    clauses = ", ".join(f"C{i}(%a{i}) => add(%a{i}, {i})" for i in range(size))
    return f"""
    type T {{ {rows} }}
    def @of(%t: T) -> int32 {{ match (%t) {{ {clauses} }} }}
    def @main(%x: int32) -> int32 {{ @of(C{size - 1}(%x)) }}
    """


def list_literal(size: int) -> str:
    heads = "".join(f"Cons(add(%x, {i}), " for i in range(size))
    return f"def @main(%x: int32) -> int32 {{ @length({heads}Nil{')' * size}) }}"


def wide_tuple(size: int) -> str:
    fields = ", ".join(f"add(%x, {i})" for i in range(size))
    lets = "".join(f"let %s{i + 1} = add(%s{i}, %t.{i}); " for i in range(size))
    return f"def @main(%x: int32) -> int32 {{ let %t = ({fields}); let %s0 = 0; {lets} %s{size} }}"


def many_functions(size: int) -> str:
    rows = "".join(
        f"def @f{i + 1}(%x: int32, %n: int32) -> int32 "
        f"{{ if (%n == 0) {{ %x }} else {{ @f{i}(%x + 1, %n - 1) }} }}\n"
        for i in range(size)
    )
    return f"""
    def @f0(%x: int32, %n: int32) -> int32 {{ %x }}
    {rows}
    def @main(%x: int32) -> int32 {{ @f{size}(%x, {size}) }}
    """


def many_params(size: int) -> str:
    params = ", ".join(f"%x{i}: int32" for i in range(size))
    lets = "".join(f"let %s{i + 1} = add(%s{i}, %x{i}); " for i in range(size))
    return f"def @main({params}) -> int32 {{ let %s0 = 0; {lets} %s{size} }}"


def live_objects(size: int) -> str:
    lets = "".join(
        f"let %a{i} = if (%c) {{ Cons({i}, Nil) }} else {{ Nil }};\n" for i in range(size)
    )
    sums = "".join(f"let %s{i + 1} = add(%s{i}, @length(%a{i})); " for i in range(size))
    return f"def @main(%c: bool) -> int32 {{ {lets} let %s0 = 0; {sums} %s{size} }}"


@pytest.mark.parametrize(
    ("program", "size"),
    [
        (let_chain, 2000),
        (call_chain, 1500),
        (nested_calls, 3000),
        (nested_ifs, 1200),
        (nested_values, 600),
        (nested_matches, 800),
        (nested_functions, 1500),
        (nested_lets, 1500),
        (many_constructors, 1000),
        (list_literal, 1200),
        (wide_tuple, 1200),
        (many_functions, 300),
        (many_params, 1500),
        (live_objects, 500),
    ],
)
def test_twice_the_program_compiles_in_about_twice_the_time(
    program: Callable[[int], str], size: int
) -> None:
    cpu_seconds(program(10))
    small, large = program(size // 2), program(size)
    # The best of some pairs counts: a busy machine makes single runs slow.
    assert any(cpu_seconds(large) < MOST * cpu_seconds(small) for _ in range(5))


@pytest.mark.parametrize(
    ("program", "size", "arg", "result"),
    [
        (let_chain, 10_000, 3, 3),
        (nested_calls, 10_000, 3, 10_003),
        (nested_ifs, 3000, 2321, 2321),
        (nested_values, 1500, 1000, 2001),
        (nested_functions, 4000, 7, 7),
        (nested_matches, 2000, 7, 2),
        (nested_lets, 5000, 7, 5007),
        (many_constructors, 1500, 1, 1500),
        (list_literal, 5000, 1, 5000),
        (wide_tuple, 1000, 1, 1000 + 499_500),
        (many_functions, 500, 1, 501),
        (live_objects, 600, True, 600),
    ],
)
def test_large_programs_run(
    program: Callable[[int], str], size: int, arg: Any, result: int
) -> None:
    assert compiled(program(size)).run(arg) == result


def test_a_function_has_thousands_of_parameters() -> None:
    assert compiled(many_params(3000)).run(*range(3000)) == 4_498_500


def test_a_chain_of_tensor_operators_is_cut_into_kernels() -> None:
    size = 5000
    lets = "\n".join(f"let %a{i + 1} = subtract(%x, %a{i});" for i in range(size))
    vm = compiled(f"def @main(%x: Tensor[(3), float32]) {{ let %a0 = %x;\n{lets}\n%a{size} }}")
    x = np.asarray([1, 2, 3], np.float32)
    np.testing.assert_array_equal(vm.run(x), x if size % 2 == 0 else x - x)
