"""What data, arrays, references and functions give is compared where an operator reads it, and
where a pattern declares it: at every level and by the evaluator.
"""

from __future__ import annotations

import numpy as np
import pytest

import relayvm
from relayvm.base.diagnostics import RelayError
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_types

N, ANY = "Tensor[(n), float32]", "Tensor[(?), float32]"
ONE = "type B[n: ShapeVar] { B(Tensor[(n), float32]) }"
TWO = "type B[n: ShapeVar] { B(Tensor[(n), float32], Tensor[(n), float32]) }"
GIVERS = {
    "data": (ONE, "B[n]", "B(%x)", "match (%c) { B(%a) => %a + %y }"),
    "two fields": (TWO, "B[n]", "B(%x, %y)", "match (%c) { B(%a, %b) => %a + %b }"),
    "tuple": (TWO, "B[n]", "B(%x, %y)", "match (%c) { B(%a, %b) => concatenate((%a, %b)) }"),
    "array": ("", f"Array[{N}]", "array.push(array.new(1), %x)", "array.get(%c, 0) + %y"),
    "reference": ("", f"ref({N})", "ref(%x)", "ref_read(%c) + %y"),
    "function": ("", f"fn () -> {N}", f"fn () -> {ANY} {{ %x }}", "%c() + %y"),
}
PATTERNS = {
    "made here": "match (Some(%x)) { Some(%a: Tensor[(3), float32]) => %a * %y, None => %y }",
    "in a tuple": "match ((%x, 1)) { (%a: Tensor[(3), float32], _) => %a * %y }",
    "nested": "match (Some((1, Some(%x)))) { Some((_, Some(%a: Tensor[(3), float32]))) => %a * %y, "
    "_ => %y }",
    "several clauses": "match ((Some(%x), Some(%y))) { (None, _) => %y, "
    "(_, None) => %y, (Some(%a: Tensor[(3), float32]), Some(%b)) => %a * %b }",
    "used from two places": "match ((Some(%x), Some(%y))) { (None, None) => %y, "
    "(Some(%a: Tensor[(3), float32]), _) => %a * %y, _ => %y }",
}


def outcomes(text: str, x: np.ndarray, y: np.ndarray) -> list[object]:
    """Return the result of each level and of the evaluator as a list, or the code of the trap."""
    module = infer_types(relayvm.parse(text))
    found: list[object] = []
    for level in (0, 1, 2, 3, None):
        try:
            if level is None:
                result = Evaluator(module).call("main", (x, y))
            else:
                result = relayvm.VirtualMachine(relayvm.compile(module, opt_level=level)).run(x, y)
            found.append(np.asarray(result).tolist())
        except RelayError as failure:
            found.append(failure.code)
    return found


@pytest.mark.parametrize("name", GIVERS)
def test_operands_of_one_size_are_of_one_size(name: str) -> None:
    before, kind, make, use = GIVERS[name]
    text = f"""{before}
    def @f[n](%c: {kind}, %y: {N}) {{ {use} }}
    def @main(%x: {ANY}, %y: {ANY}) {{ @f({make}, %y) }}"""
    ones = np.ones(3, "f")
    assert outcomes(text, ones[:1], ones) == ["run-time-shape"] * 5
    fits = outcomes(text, ones, ones)
    assert isinstance(fits[0], list) and fits == [fits[0]] * 5


@pytest.mark.parametrize("name", PATTERNS)
def test_what_a_pattern_declares_is_compared(name: str) -> None:
    text = f"def @main(%x: {ANY}, %y: Tensor[(3), float32]) {{ {PATTERNS[name]} }}"
    ones = np.ones(3, "f")
    assert outcomes(text, ones[:1], ones) == ["run-time-shape"] * 5
    assert outcomes(text, ones, ones) == [[1.0, 1.0, 1.0]] * 5


def test_a_pattern_may_declare_a_size_with_a_name() -> None:
    body = f"match (Some(%x)) {{ Some(%a: {N}) => %a, None => %y }}"
    text = f"""def @f[n](%x: {ANY}, %y: {N}) -> {N} {{ {body} }}
    def @main(%x: {ANY}, %y: {ANY}) -> {ANY} {{ @f(%x, %y) }}"""
    ones = np.ones(3, "f")
    assert outcomes(text, ones[:1], ones) == ["run-time-shape"] * 5
    assert outcomes(text, ones, ones) == [[1.0, 1.0, 1.0]] * 5
