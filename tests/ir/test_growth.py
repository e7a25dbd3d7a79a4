"""Reading, printing, hashing and comparing take time that grows with the size of a program."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

import pytest

from relayvm.ir.equal import structural_equal, structural_hash
from relayvm.ir.module import Module
from relayvm.ir.printer import print_module
from relayvm.ir.verify import verify_module
from tests.ir.programs import parse
from tests.ir.test_deep import NESTED, NESTED_ATTRIBUTES, NESTED_PATTERNS, NESTED_TYPES, nest


def lets(count: int) -> str:
    lines = "".join(f"let %v{i + 1} = add(%v{i}, 1);\n" for i in range(count))
    return f"def @main(%v0: int32) {{ {lines} %v{count} }}"


def calls(count: int) -> str:
    return f"def @main(%x: float32) {{ {'exp(' * count}%x{')' * count} }}"


def graph(count: int) -> str:
    lines = "".join(f"%{i + 1} = add(%{i}, %{i});\n" for i in range(count))
    return f"def @main(%x: int32) {{ %0 = negative(%x); {lines} %{count} }}"


def definitions(count: int) -> str:
    return "".join(
        f"type T{i}[A] {{ C{i}(A, T{max(0, i - 1)}[A]) }}\n"
        f"def @f{i}(%x: int32, a={i}) {{ @f{max(0, i - 1)}(%x) }}\n"
        for i in range(count)
    )


def one_line(count: int) -> str:
    return (
        f"def @main({', '.join(f'%p{i}: int32' for i in range(count))}) {{ ({'%p0, ' * count}) }}"
    )


def same_names(count: int) -> str:
    return f"def @main(%x: int32) {{ {'let %x = add(%x, 1); ' * count} %x }}"


def strings(count: int) -> str:
    return f'def @main(a="{"a" * count}", b=[{"1, " * count}], c="{chr(92)}n{"☃" * count}") {{ 1 }}'


def nested(kind: str, parts: tuple[str, str, str]) -> Callable[[int], str]:
    texts = {
        "expression": "def @main(%x: int32) {{ {} }}",
        "type": "def @main(%x: {}) {{ %x }} type T {{ C(fn () -> {}) }}",
        "pattern": "def @main(%x: List[int32]) {{ match? (%x) {{ {} => %y }} }}",
        "attribute": "def @main(a={}) {{ 1 }}",
    }
    return lambda count: texts[kind].format(*[nest(parts, count)] * 2)


FAMILIES: dict[str, tuple[Callable[[int], str], int]] = {
    f.__name__: (f, 400) for f in (lets, calls, graph, definitions, one_line, same_names, strings)
}
for kind, rows in (
    ("expression", NESTED),
    ("type", NESTED_TYPES),
    ("pattern", NESTED_PATTERNS),
    ("attribute", NESTED_ATTRIBUTES),
):
    FAMILIES |= {f"{kind}: {name}": (nested(kind, parts), 300) for name, parts in rows.items()}


def spent(work: Callable[[], object]) -> float:
    """Return the least time of two runs."""
    times = []
    for _ in range(2):
        gc.disable()
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
        gc.enable()
    return min(times)


def stages(text: str) -> dict[str, Callable[[], object]]:
    module: Module = parse(text)
    copy = parse(text)
    return {
        "parse": lambda: parse(text),
        "print": lambda: print_module(module),
        "hash": lambda: structural_hash(module),
        "compare": lambda: structural_equal(module, copy),
        "verify": lambda: verify_module(module),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_time_grows_with_the_size(name):
    make, count = FAMILIES[name]
    small, large = stages(make(count)), stages(make(8 * count))
    for stage in small:
        # Eight times the size: what is quadratic takes 64 times as long. What takes next to no
        # time is not measured, and the best of some tries counts: other work disturbs single ones.
        bound = 16 * max(spent(small[stage]), 0.002)
        assert any(spent(large[stage]) < bound for _ in range(4)), stage
