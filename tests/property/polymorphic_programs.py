"""Random programs in which polymorphic functions are values of all kinds of expressions."""

from __future__ import annotations

import random

from relayvm.base.source import Source
from relayvm.ir.module import Module
from relayvm.ir.prelude import parse_program
from relayvm.ops import OPS

POLY = "fn [A](A) -> A"
BASE = f"""
type Held {{ Held({POLY}) }}
def @note(%r: ref(int32), %k: int32) -> int32 {{ ref_write(%r, ref_read(%r) * 31 + %k); %k }}
def @call[A, B](%f: fn (A) -> B, %a: A) -> B {{ %f(%a) }}
def @same[A](%a: A) -> A {{ %a }}
def @pick(%c: bool, %f: {POLY}, %g: {POLY}) -> {POLY} {{ if (%c) {{ %f }} else {{ %g }} }}
def @noting[X](%r: ref(int32), %k: int32, %x: X) -> {POLY} {{
  fn [A](%a: A) -> A {{ let %u = (@note(%r, %k), %x); %a }}
}}
"""
LOCALS = f"""
  let %r = ref(0);
  let %id = fn [A](%a: A) -> A {{ %a }};
  let %log = fn [A](%a: A) -> A {{ let %u = @note(%r, %x); %a }};
  let %twice = fn [A](%n: int32, %a: A) -> A {{ if (%n <= 0) {{ %log(%a) }} else {{ %id(%a) }} }};
  let %make = fn (%k: int32) -> {POLY} {{ fn [B](%b: B) -> B {{ %twice(%k, %b) }} }};
  let %cell: ref({POLY}) = ref(%log);
"""


class _Writer:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def int_(self, fuel: int) -> str:
        if fuel <= 0:
            return self.random.choice(["%x", "1", "5"])
        name, less = self.name(), fuel - 1
        return self.random.choice(
            [
                lambda: f"({self.int_(less)} + {self.int_(less)})",
                lambda: f"@note(%r, {self.int_(less)})",
                lambda: f"@call({self.named(less)}, {self.int_(less)})",
                lambda: f"(let {name}: {POLY} = {self.poly(less)}; {name}({self.int_(less)}))",
                lambda: f"%twice({self.int_(less)}, {self.int_(less)})",
                lambda: f"(if ({self.bool_(less)}) {{ {self.int_(less)} }} else {{ %log(%x) }})",
                lambda: f"(match ({self.held(less)}) {{ Held({name}) => {name}(%x) }})",
            ]
        )()

    def bool_(self, fuel: int) -> str:
        if fuel <= 0:
            return self.random.choice(["%c", "True"])
        name, less = self.name(), fuel - 1
        return self.random.choice(
            [
                lambda: f"({self.int_(less)} < {self.int_(less)})",
                lambda: f"@call({self.named(less)}, {self.bool_(less)})",
                lambda: f"(let {name}: {POLY} = {self.poly(less)}; {name}({self.bool_(less)}))",
                lambda: f"(match ({self.held(less)}) {{ Held({name}) => {name}(%c) }})",
            ]
        )()

    def held(self, fuel: int) -> str:
        return f"Held({self.poly(fuel)})"

    def named(self, fuel: int) -> str:
        return self.random.choice(["%id", "%log", "@same", self.poly(fuel)])

    def poly(self, fuel: int) -> str:
        """Return an expression of the polymorphic type."""
        if fuel <= 0:
            return self.random.choice(["%id", "%log", "@same", "ref_read(%cell)"])
        name, less = self.name(), fuel - 1
        return self.random.choice(
            [
                lambda: f"%make({self.int_(less)})",
                lambda: f"@noting(%r, {self.int_(less)}, {self.bool_(less)})",
                lambda: f"@pick({self.bool_(less)}, {self.poly(less)}, {self.poly(less)})",
                lambda: f"(match ({self.held(less)}) {{ Held({name}) => {name} }})",
                lambda: f"(let {name} = {self.poly(less)}; ref_write(%cell, {name}); {name})",
                lambda: f"fn [A]({name}: A) -> A {{ {self.used(name, less)} }}",
            ]
        )()

    def used(self, name: str, fuel: int) -> str:
        own = self.name()
        return f"let {own}: {POLY} = {self.poly(fuel)}; {own}({name})"


def polymorphic_program(seed: int, fuel: int) -> Module:
    """Return a program whose `main` takes an integer and a truth value."""
    writer = _Writer(seed)
    body = f"({writer.int_(fuel)}, {writer.bool_(fuel)}, ref_read(%r))"
    text = f"{BASE}def @main(%x: int32, %c: bool) {{{LOCALS}  {body} }}"
    return parse_program(Source(f"seed {seed}", text), OPS)
