"""The text of typed programs: what is read back and inferred again prints the same."""

from __future__ import annotations

import random

import pytest

import relayvm
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.passes import run_passes
from relayvm.ir.printer import print_module

HEAD = "type Pair[A, B] { Pair(A, B) }\n"


class Bodies:
    """Makes chains of lets whose variables are polymorphic functions, alone and in tuples, data and
    references, which others capture, call and take as values.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.functions = ["%same"]
        self.tuples: list[str] = []

    def step(self, name: str, depth: int) -> str:
        f = self.random.choice(self.functions)
        kind = self.random.randrange(8)
        if kind == 0:
            self.functions.append(name)
            return f"fn [A](%a: A) -> A {{ {f}(%a) }}"
        if kind == 1 and depth:
            self.functions.append(name)
            inner = Bodies(self.random.randrange(1 << 30))
            inner.functions = self.functions[:-1]
            return f"fn [B](%b: B) -> B {{ {inner.text(4, name[1:], depth - 1)} %b }}"
        if kind == 2:
            self.tuples.append(name)
            other = self.random.choice(self.functions)
            return f"({f}, fn [A, B](%b: B, %a: A) -> A {{ {other}(%b); %a }})"
        if kind == 3 and self.tuples:
            self.functions.append(name)
            return f"{self.random.choice(self.tuples)}.0"
        if kind == 4:
            self.functions.append(name)
            return (
                "fn [A](%a: A) -> A { let %n = fn [B](%b: B) -> (A, B) "
                f"{{ (%a, {f}(%b)) }}; %n(True).0 }}"
            )
        if kind == 5:
            return f"Pair({f}(1), ref({f}(True)))"
        if kind == 6:
            return f"({f}({f}(2)), {f}((True, 1)))"
        self.functions.append(name)
        return f

    def text(self, count: int, prefix: str, depth: int = 1) -> str:
        steps = range(self.random.randrange(2, count))
        lets = ((f"%{prefix}{i}", i) for i in steps)
        return " ".join(f"let {name} = {self.step(name, depth)};" for name, _ in lets)


def program(seed: int) -> str:
    lets = f"let %same = fn [A](%a: A) -> A {{ %a }}; {Bodies(seed).text(10, 'v')}"
    return f"{HEAD}def @main(%x: int32) -> int32 {{ {lets} %x }}"


@pytest.mark.parametrize("passes", [[], ["to_anf", "infer_types"], ["to_cps", "infer_types"]])
def test_polymorphic_functions_have_the_same_names_again(passes):
    for seed in range(30):
        module = run_passes(infer_types(relayvm.parse(program(seed))), passes)
        for show_types in (False, True):
            text = print_module(module, show_types=show_types)
            again = infer_types(relayvm.parse(text))
            assert print_module(again, show_types=show_types) == text


def test_a_parameter_that_stands_at_two_places_has_a_name_at_each():
    text = """
    def @main(%x: int32) {
      let %f = fn [A](%a: A) -> A { let %g = (fn [A](%a: A) -> A { %a }, 1); let %h = %g; %a };
      let %t = (%f, 1);
      %t.0(%x)
    }"""
    shown = print_module(infer_types(relayvm.parse(text)))
    assert "let %t: (fn [A](A) -> A, int32) = (%f, 1);" in shown
    assert "let %h: (fn [A_1](A_1) -> A_1, int32) = %g;" in shown
