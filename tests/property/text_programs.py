"""The ground of generators that write programs as text, directed by types."""

from __future__ import annotations

import random
from collections.abc import Callable

Env = tuple[tuple[str, str], ...]
Maker = Callable[["TextGenerator", Env, int], str]
Control = Callable[["TextGenerator", str, Env, int], str]


class TextGenerator:
    """Writes expressions of given types; only variables in scope are used.

    A generator says which `kinds` of values there are, how each is made (`makers`, and `leaf` where
    no fuel is left), and which forms of any type there are beside those of this class (`controls`).
    """

    kinds: tuple[str, ...] = ()
    makers: dict[str, list[Maker]] = {}
    controls: list[Control] = []
    condition: tuple[str, ...] = ("True",)

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0

    def name(self) -> str:
        """Return a name that no other variable has."""
        self.count += 1
        return f"%v{self.count}"

    def leaf(self, kind: str, env: Env) -> str:
        """Return a small expression of a type."""
        raise AssertionError(kind)

    def expr(self, kind: str, env: Env, fuel: int) -> str:
        """Return an expression of a type."""
        known = [name for name, k in env if k == kind]
        if known and (fuel <= 0 or self.random.random() < 0.35):
            return self.random.choice(known)
        if fuel <= 0:
            return self.leaf(kind, env)
        if self.random.random() < 0.45:
            return self.random.choice(FORMS + self.controls)(self, kind, env, fuel - 1)
        return self.random.choice(self.makers[kind])(self, env, fuel - 1)

    # -- Forms of any type -------------------------------------------------------------------------

    def let(self, kind: str, env: Env, fuel: int) -> str:
        bound, name = self.random.choice(self.kinds), self.name()
        value = self.expr(bound, env, fuel // 2)
        return f"(let {name}: {bound} = {value}; {self.expr(kind, (*env, (name, bound)), fuel)})"

    def choice(self, kind: str, env: Env, fuel: int) -> str:
        cond = template(*self.condition)(self, env, fuel // 3)
        arms = [self.expr(kind, env, fuel // 2) for _ in range(2)]
        return f"(if ({cond}) {{ {arms[0]} }} else {{ {arms[1]} }})"

    def picked(self, kind: str, env: Env, fuel: int) -> str:
        flag = self.random.choice(["True", "False"])
        parts = [self.expr(kind, env, fuel // 2) for _ in range(2)]
        return f"@pick({flag}, {parts[0]}, {parts[1]})"

    def swapped(self, kind: str, env: Env, fuel: int) -> str:
        other = self.expr(self.random.choice(self.kinds), env, fuel // 2)
        return f"@swap(({other}, {self.expr(kind, env, fuel // 2)})).0"

    def loop(self, kind: str, env: Env, fuel: int) -> str:
        """Return a recursion of a local function that may capture anything."""
        f, n, acc = self.name(), self.name(), self.name()
        inner = (*env, (acc, kind))
        again = f"{f}({n} - 1, {self.expr(kind, inner, fuel // 2)})"
        times, start = self.random.randrange(4), self.expr(kind, env, fuel // 2)
        body = f"if ({n} <= 0) {{ {acc} }} else {{ {again} }}"
        head = f"fn ({n}: int32, {acc}: {kind}) -> {kind} {{ {body} }}"
        return f"(let {f} = {head}; {f}({times}, {start}))"

    def called(self, kind: str, env: Env, fuel: int) -> str:
        bound, name = self.random.choice(self.kinds), self.name()
        body = self.expr(kind, (*env, (name, bound)), fuel // 2)
        return f"(fn ({name}: {bound}) {{ {body} }})({self.expr(bound, env, fuel // 2)})"


FORMS: list[Control] = [
    TextGenerator.let,
    TextGenerator.let,
    TextGenerator.choice,
    TextGenerator.picked,
    TextGenerator.swapped,
    TextGenerator.loop,
    TextGenerator.called,
]


def template(text: str, *kinds: str) -> Maker:
    """Return what fills the places of a text with expressions of types."""

    def make(program: TextGenerator, env: Env, fuel: int) -> str:
        parts = [program.expr(kind, env, fuel // max(1, len(kinds))) for kind in kinds]
        return "(" + text.format(*parts) + ")"

    return make
