"""Sizes that are declared are checked where a run comes, at each level: what a pass finds out about
a size in a branch that never runs is no error.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

import relayvm
from relayvm.base.diagnostics import RelayError, Trap
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.passes import run_passes
from relayvm.ir.module import Module
from relayvm.ir.printer import print_module

LEVELS = (0, 1, 2, 3, 4)
SHAPES = [(3, 1), (3, 4), (1, 4), (1, 1)]
Shape = tuple[int, ...]
Made = tuple[str, Shape]
# Bodies of functions from tensors of any two sizes to such.
BODIES = [
    "%a",
    "%a + 1f",
    "(if (True) { %a } else { %a * 2f })",
    "concatenate((%a, %a), axis=1)",
    "strided_slice(%a, begin=[0, 0], end=[1, 4])",
    'nn.dense(%a, ones(shape=[4, 4], dtype="float32"))',
    "broadcast_to(%a, shape=[3, 4])",
    'add(%a, ones(shape=[3, 4], dtype="float32"))',
    "add(%a, transpose(%a))",
    "(let %b: Tensor[(?, ?), float32] = transpose(%a);"
    ' add(%b, ones(shape=[3, 1], dtype="float32")))',
    "reshape(%a, newshape=[3, -1])",
    "reshape(%a, newshape=[1, -1])",
]
OPEN = "Tensor[(?, ?), float32]"


class Programs:
    """Writes one program: `%t` is always true, so that some branches never run."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.functions: list[str] = []
        self.names = 0

    def program(self) -> str:
        """Return the text of the program."""
        env: list[Made] = [("%x", (3, 1)), ("%y", (1, 4)), ("%z", (3, 4)), ("%q", (3, 4))]
        body, _ = self.expr(env, 4)
        params = (
            "%x: Tensor[(3, 1), float32], %y: Tensor[(1, 4), float32],"
            f" %z: Tensor[(?, 4), float32], %q: {OPEN}, %c: bool, %t: bool"
        )
        return "\n".join([*self.functions, f"def @main({params}) {{ {body} }}"])

    def expr(self, env: list[Made], depth: int) -> Made:
        """Return an expression, with the shape that it has where the run comes by."""
        kind = self.random.randrange(9) if depth else 0
        if kind == 0:
            return self.random.choice([*env, self.constant()])
        first, shape = self.expr(env, depth - 1)
        if kind <= 2:
            return self.call(first, self.random.choice([shape, shape, *SHAPES]))
        if kind == 3:
            name = self.name()
            second, result = self.expr([*env, (name, shape)], depth - 1)
            return f"(let {name}: {self.type_of(shape)} = {first}; {second})", result
        if kind == 4:
            name, function = self.name(), self.name()
            second, result = self.expr([*env, (name, shape)], depth - 1)
            made = f"fn ({name}: {self.type_of(shape)}) {{ {second} }}"
            return f"(let {function} = {made}; {function}({first}))", result
        second, other = self.expr(env, depth - 1)
        if kind <= 6:
            condition = self.random.choice(["%t", "%t", "%c", "True"])
            second = self.call(second, shape)[0]
            return f"(if ({condition}) {{ {first} }} else {{ {second} }})", shape
        try:
            return f"multiply({first}, {second})", np.broadcast_shapes(shape, other)
        except ValueError:
            return first, shape

    def call(self, value: str, shape: Shape) -> Made:
        """Return a call whose result is declared to have this shape, be it so or not."""
        number = len(self.functions)
        kind = self.random.randrange(4)
        if kind <= 1:
            body = self.random.choice(BODIES)
            self.functions.append(f"def @o{number}(%a: {OPEN}) -> {OPEN} {{ {body} }}")
            inner = f"@o{number}({value})"
        elif kind == 2:
            constrained = f"@o{number}[A, B](%a: A, %b: B) -> A where add(A, B, A)"
            self.functions.append(f"def {constrained} {{ add(%a, %b) }}")
            inner = f"@o{number}({value}, {self.constant()[0]})"
        else:
            generic = f"@o{number}[A](%a: A, %b: A) -> A"
            self.functions.append(f"def {generic} {{ if (True) {{ %b }} else {{ %a }} }}")
            inner = f"@o{number}({value}, {value})"
        body = self.random.choice(["%t", "%t * 3f", "negative(%t)"])
        self.functions.append(f"def @e{number}(%t: {self.type_of(shape)}) {{ {body} }}")
        return f"@e{number}({inner})", shape

    def constant(self) -> Made:
        shape = self.random.choice(SHAPES)
        return f'ones(shape={list(shape)}, dtype="float32")', shape

    def name(self) -> str:
        self.names += 1
        return f"%v{self.names}"

    def type_of(self, shape: Shape) -> str:
        dims = ("?" if self.random.random() < 0.4 else str(d) for d in shape)
        return f"Tensor[({', '.join(dims)}), float32]"


ARGS = (
    np.arange(3, dtype=np.float32).reshape(3, 1),
    np.arange(4, dtype=np.float32).reshape(1, 4) - 1,
    np.arange(12, dtype=np.float32).reshape(3, 4),
    np.ones((3, 4), np.float32),
    True,
    True,
)


def outcome(module: Module, args: tuple[object, ...], level: int | None) -> object:
    """Return the result as its shape and bits, or the code of the trap; an error is one here."""
    try:
        if level is None:
            result = Evaluator(module).call("main", args)
        else:
            exe = relayvm.compile(module, opt_level=level, entries=["main"])
            result = relayvm.VirtualMachine(exe).run(*args)
    except Trap as trap:
        return trap.code
    return np.shape(result), np.asarray(result).tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_each_level_checks_what_is_declared(seed: int) -> None:
    text = Programs(seed).program()
    try:
        module = infer_types(relayvm.parse(text))
    except RelayError:
        return  # It declares what cannot be.
    wanted = outcome(module, ARGS, None)
    for level in LEVELS:
        found = outcome(module, ARGS, level)
        # What nobody reads need not be computed, so that it does not trap either.
        assert found == wanted or (wanted == "run-time-shape" and level), (level, text)


MAIN = "def @main(%x: Tensor[(3, 1), float32], %y: Tensor[(4,), float32], %c: bool)"
K = "def @k(%t: Tensor[(3, 1), float32]) { %t + 1f }\n"
OPENED = {
    "a constraint": "def @g[A, B](%a: A, %b: B) -> A where add(A, B, A) { add(%a, %b) }\n",
    "a result": f"def @g(%a: {OPEN}, %b: Tensor[(?,), float32]) -> {OPEN} {{ add(%a, %b) }}\n",
    "a name": f"def @g(%a: {OPEN}, %b: Tensor[(4,), float32]) {{"
    f" let %s: {OPEN} = add(%a, %b); %s }}\n",
    "a constant": f"def @g(%a: {OPEN}, %b: Tensor[(4,), float32]) {{"
    f' let %s: {OPEN} = ones(shape=[3, 4], dtype="float32"); %s }}\n',
    "an operator": f"def @g(%a: {OPEN}, %b: Tensor[(4,), float32]) {{"
    ' add(transpose(%a), ones(shape=[3, 1], dtype="float32")) }\n',
}
USES = {
    "in a branch": "{ if (%c) { @k(@g(%x, %y)) } else { %x } }",
    "at once": "{ @k(@g(%x, %y)) }",
    "in a closure": "{ let %f = fn () { @k(@g(%x, %y)) }; if (%c) { %f() } else { %x } }",
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("opened", OPENED)
def test_a_size_that_a_pass_finds_out_is_checked_by_the_run(opened: str, use: str) -> None:
    module = infer_types(relayvm.parse(OPENED[opened] + K + MAIN + USES[use]))
    for taken in (False, True):
        args = (np.ones((3, 1), np.float32), np.arange(4, dtype=np.float32), taken)
        wanted = outcome(module, args, None)
        assert wanted == "run-time-shape" or not taken
        for level in LEVELS:
            assert outcome(module, args, level) == wanted, (level, taken)


def test_an_error_of_the_program_is_one_before_it_runs() -> None:
    text = K + MAIN + " { if (%c) { @k(add(%x, %y)) } else { %x } }"
    for level in LEVELS:
        with pytest.raises(RelayError) as failure:
            relayvm.compile(relayvm.parse(text), opt_level=level)
        assert failure.value.code == "shape-mismatch"


def test_what_an_operator_of_a_type_parameter_gives_stays_as_open_as_it() -> None:
    module = infer_types(relayvm.parse(OPENED["a constraint"] + K + MAIN + USES["in a branch"]))
    for name in ("inline", "instantiate"):
        after = run_passes(module, [name])
        assert infer_types(relayvm.parse(print_module(after))) is not None
