"""Random programs over lists and trees, whose parts are held once or by several, equal the
evaluator on both engines; what a program still holds is as it was.
"""

from __future__ import annotations

import random

import pytest
from meaning import same_value

import relayvm
from relayvm.base.diagnostics import Trap
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_types

TYPES = "type T { Leaf, Node(T, int32, T), Pair((L, T)) }\ntype L { End, Link(int32, L) }\n"
MOST_STEPS = 3_000
KINDS = {"L": "L", "T": "T", "i": "int32"}


class Writer:
    """Writes the text of one program. `scope` maps names to kinds, as does `smaller`, what is a
    part of something that is matched: functions call themselves on such alone.
    """

    def __init__(self, seed: int) -> None:
        self.choice = random.Random(seed)
        self.count = 0
        self.made: list[tuple[str, str]] = []  # kinds of parameters and result
        self.own: tuple[int, str, str] | None = None

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def program(self) -> str:
        functions = [self.function(i) for i in range(self.choice.randrange(2, 5))]
        kinds, _ = self.made[-1]
        parts = [self.grown(k) for k in kinds]
        lets = "".join(f"let %a{i} = {text}; " for i, text in enumerate(parts))
        names = ", ".join(f"%a{i}" for i in range(len(parts)))
        call = f"@f{len(functions) - 1}({names})"
        held = [f"%a{i}" for i in range(len(parts)) if self.choice.random() < 0.4]
        result = f"({', '.join([call, *held])},)" if not held else f"({', '.join([call, *held])})"
        return TYPES + "".join(functions) + f"def @main(%n: int32) {{ {lets}{result} }}\n"

    def grown(self, kind: str, depth: int = 4) -> str:
        """Return a value that depends on `%n`, so that nothing is computed when compiling."""
        if kind == "i":
            return f"%n + {self.choice.randrange(9)}"
        if kind == "L":
            if depth == 0 or self.choice.random() < 0.15:
                return "End"
            return f"Link({self.grown('i')}, {self.grown('L', depth - 1)})"
        if depth == 0 or self.choice.random() < 0.15:
            return "Leaf"
        if self.choice.random() < 0.2:
            return f"Pair(({self.grown('L', 2)}, {self.grown('T', depth - 1)}))"
        left, right = (self.grown("T", depth - 2 if depth > 1 else 0) for _ in range(2))
        return f"Node({left}, {self.grown('i')}, {right})"

    def function(self, index: int) -> str:
        kinds = self.choice.choice("LT") + "".join(self.choice.choices("LTi", k=2))
        result = self.choice.choice("LT")
        self.own = (index, kinds, result)
        scope = {self.name(): k for k in kinds}
        params = ", ".join(f"{n}: {KINDS[k]}" for n, k in scope.items())
        first = next(iter(scope))
        body = self.match(first, scope, {}, result, 3)
        self.made.append((kinds, result))
        return f"def @f{index}({params}) -> {result} {{ {body} }}\n"

    def expr(self, scope: dict[str, str], smaller: dict[str, str], kind: str, depth: int) -> str:
        known = [n for n, k in scope.items() if k == kind]
        if kind == "i":
            first = self.choice.choice(known) if known else "1"
            return f"({first} + {self.choice.randrange(5)})"
        ways = ["variable"] if known else ["empty"]
        if depth:
            ways += ["build", "build", "match", "let", "branch", "call", "self", "self"]
        way = self.choice.choice(ways)
        if way == "variable":
            return self.choice.choice(known)
        if way == "empty":
            return "End" if kind == "L" else "Leaf"
        if way == "match":
            matched = [n for n, k in scope.items() if k in "LT"]
            return self.match(self.choice.choice(matched), scope, smaller, kind, depth - 1)
        if way == "let":
            name, other = self.name(), self.choice.choice("LT")
            value = self.expr(scope, smaller, other, depth - 1)
            rest = self.expr({**scope, name: other}, smaller, kind, depth - 1)
            return f"(let {name} = {value}; {rest})"
        if way == "branch":
            limit = self.choice.randrange(9)
            yes, no = (self.expr(scope, smaller, kind, depth - 1) for _ in range(2))
            condition = self.expr(scope, smaller, "i", 0)
            return f"if ({condition} < {limit}) {{ {yes} }} else {{ {no} }}"
        if way in ("call", "self"):
            return self.call(way, scope, smaller, kind, depth)
        return self.build(scope, smaller, kind, depth)

    def build(self, scope: dict[str, str], smaller: dict[str, str], kind: str, depth: int) -> str:
        def part(k: str) -> str:
            return self.expr(scope, smaller, k, depth - 1)

        if kind == "L":
            return f"Link({part('i')}, {part('L')})"
        if self.choice.random() < 0.3:
            return f"Pair(({part('L')}, {part('T')}))"
        return f"Node({part('T')}, {part('i')}, {part('T')})"

    def call(
        self, way: str, scope: dict[str, str], smaller: dict[str, str], kind: str, depth: int
    ) -> str:
        assert self.own is not None
        index, kinds, result = self.own
        begin = [n for n, k in smaller.items() if k == kinds[0]]
        if way == "self" and result == kind and begin:
            rest = [self.expr(scope, smaller, k, 0) for k in kinds[1:]]
            return f"@f{index}({', '.join([self.choice.choice(begin), *rest])})"
        fitting = [i for i, (_, r) in enumerate(self.made) if r == kind]
        if not fitting:
            return self.build(scope, smaller, kind, depth)
        chosen = self.choice.choice(fitting)
        args = [self.expr(scope, smaller, k, depth - 1) for k in self.made[chosen][0]]
        return f"@f{chosen}({', '.join(args)})"

    def match(
        self, on: str, scope: dict[str, str], smaller: dict[str, str], kind: str, depth: int
    ) -> str:
        clauses = []
        for pattern, bound in self.patterns(scope[on]):
            inner = {**scope, **bound}
            less = {**smaller, **{n: k for n, k in bound.items() if k in "LT"}}
            clauses.append(f"{pattern} => {self.expr(inner, less, kind, depth)}")
        return f"match ({on}) {{ {', '.join(clauses)} }}"

    def patterns(self, kind: str) -> list[tuple[str, dict[str, str]]]:
        """Return patterns that cover a type, sometimes nested ones before."""
        a, b, c, d = (self.name() for _ in range(4))
        if kind == "L":
            found = [(f"Link({a}, {b})", {a: "i", b: "L"}), ("End", {})]
            nested = (f"Link({c}, Link(_, {d}))", {c: "i", d: "L"})
        else:
            found = [
                (f"Node({a}, _, {b})", {a: "T", b: "T"}),
                (f"Pair(({c}, {d}))", {c: "L", d: "T"}),
                ("Leaf", {}),
            ]
            e, f, g = (self.name() for _ in range(3))
            nested = (f"Node(Node({e}, _, _), {f}, {g})", {e: "T", f: "i", g: "T"})
        self.choice.shuffle(found)
        if self.choice.random() < 0.4:
            found.insert(0, nested)
        return found


def check(seed: int) -> bool:
    """Compare one program; False if it takes too many steps."""
    text = Writer(seed).program()
    module = relayvm.parse(text)
    exe = relayvm.compile(module, entries=["main"])
    results = []
    for engine in ("interpreter", "jit"):
        vm = relayvm.VirtualMachine(exe, engine=engine, max_steps=MOST_STEPS)
        try:
            results.append(vm.run(3))
        except Trap as trap:
            assert trap.code == "out-of-steps"
            return False
    expected = Evaluator(infer_types(module)).call("main", [3])
    for result in results:
        assert same_value(expected, result), text
    return True


@pytest.mark.parametrize("start", [0, pytest.param(12, marks=pytest.mark.slow)])
def test_programs_over_lists_and_trees_equal_the_evaluator(start: int) -> None:
    done = [check(seed) for seed in range(start, start + 12)]
    assert sum(done) >= 6
