"""Both sides of every rule in text mean the same on random inputs, of every dtype that fits."""

from __future__ import annotations

import random
import sys

import numpy as np
import pytest
from ml_dtypes import finfo

from relayvm.base.dtypes import BY_NAME
from relayvm.base.shapes import ShapeError
from relayvm.compiler.analysis.purity import Purity
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.rewriting.build import typed_call
from relayvm.compiler.rewriting.engine import Site
from relayvm.compiler.rewriting.text import TextRule, parse_rules
from relayvm.compiler.transforms.lazy_gradient_init import gradient_rules
from relayvm.compiler.transforms.simplify_expr import simplify_expr, text_rules
from relayvm.ir.expr import Attrs, Call, Constant, Expr, Function, Var
from relayvm.ir.module import Module
from relayvm.ir.prelude import parse_program
from relayvm.ir.types import TensorType
from relayvm.ir.visit import post_order
from relayvm.ops import OPS

TRIES = 4000
ENOUGH = 24
DTYPES = [BY_NAME[n] for n in ("float32", "float16", "float64", "int8", "uint8", "int32", "int64")]
DTYPES.append(BY_NAME["bool"])
SHAPES = [(), (3,), (2, 3), (3, 2), (1, 3), (2, 1, 3), (2, 2, 2)]
PERMUTATIONS = [None, (0,), (0, 1), (1, 0), (-1, 0), (0, 2, 1), (2, 0, 1), (1, 2, 0), (1, 0, 2)]
BOUNDS = [-128.0, 0.0, 127.0, 255.0, -1000.0, 1e19, 2.5]
VALUES = {
    "axes": PERMUTATIONS,
    "newshape": [(6,), (3, 2), (2, 3), (-1,), (1, -1), (0, -1), (3,), ()],
    "shape": SHAPES,
    "dtype": DTYPES,
    "a_min": BOUNDS,
    "a_max": BOUNDS,
    "lhs_begin": [0],
    "lhs_end": [None],
    "rhs_begin": [0],
    "rhs_end": [None],
    "axis": [None, (0,), (-1,), (0, 1)],
    "keepdims": [False, True],
    "exclude": [False],
    "select_last_index": [False, True],
    "out_dtype": [BY_NAME["float32"]],
    "is_ascend": [False, True],
}


def random_array(kind: TensorType, rng: random.Random, strange: float = 0.4) -> np.ndarray:
    size = int(np.prod(kind.shape, dtype=int))
    if kind.dtype.is_float:
        pool = [0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, 2.5, -3.25, 1e-3, 65504.0, kind.dtype.max]
        values = [
            rng.choice(pool) if rng.random() < strange else rng.uniform(-4, 4) for _ in range(size)
        ]
    elif kind.dtype.is_bool:
        values = [rng.random() < 0.5 for _ in range(size)]
    else:
        low, high = int(kind.dtype.min), int(kind.dtype.max)
        values = [rng.choice([low, high, 0, 1, rng.randint(low, high)]) for _ in range(size)]
    return np.array(values, kind.dtype.numpy).reshape(kind.shape)


class Instance:
    """The left side of a rule with random types, attributes and constants."""

    def __init__(self, rule: TextRule, rng: random.Random) -> None:
        self.rng = rng
        self.strange = 0.0 if rule.rounds else 0.4
        constants = {
            a[1:]
            for t in rule.conditions
            if t.name in ("constant", "positive")
            for a in t.arguments
        }
        self.base = TensorType(rng.choice(SHAPES), rng.choice(DTYPES))
        self.params: dict[str, Expr] = {}
        self.attributes: dict[str, object] = {}
        self.root_op = rule.left.op.name
        self.root = self.build(rule.left, constants)

    def build(self, side: Expr, constants: set[str]) -> Expr:
        done: dict[int, Expr] = {}
        for node in post_order(side):
            if isinstance(node, Var):
                if node.name not in self.params:
                    self.params[node.name] = self.variable(node.name, node.name in constants)
                done[id(node)] = self.params[node.name]
            elif isinstance(node, Constant):
                shape = self.rng.choice([(), (), (1,), self.base.shape])
                data = np.full(shape, node.data, self.base.dtype.numpy)
                done[id(node)] = Constant(data, checked_type=TensorType(shape, self.base.dtype))
            elif isinstance(node, Call):
                op = OPS[node.op.name]
                attrs = {n: self.attribute(n, v) for n, v in node.attrs.items()}
                args = [done[id(a)] for a in node.args]
                done[id(node)] = typed_call(op, args, Attrs(attrs), None)
        return done[id(side)]

    def variable(self, name: str, is_constant: bool) -> Expr:
        if name == "scale":
            kind = TensorType((), BY_NAME["float32"])
            return Constant(np.array(self.rng.uniform(0.1, 2), np.float32), checked_type=kind)
        if name == "zero":
            kind = TensorType((), BY_NAME["int32"])
            return Constant(np.array(self.rng.randint(-300, 300), np.int32), checked_type=kind)
        shape = self.base.shape if self.rng.random() < 0.6 else self.rng.choice(SHAPES)
        same = self.rng.random() < 0.8
        kind = TensorType(shape, self.base.dtype if same else self.rng.choice(DTYPES))
        if is_constant:
            return Constant(random_array(kind, self.rng, self.strange), checked_type=kind)
        return Var(name, kind, checked_type=kind)

    def attribute(self, name: str, value: object) -> object:
        if not isinstance(value, str):
            return value
        choices = VALUES[name]
        if name == "axis" and value == "q":
            return -1
        if name == "axis" and self.root_op == "argsort":
            choices = [-1, 0]
        if name == "newshape":
            size = self.base.shape
            choices = [*choices, size, size[::-1]]
        return self.attributes.setdefault(value, self.rng.choice(choices))


def instances(rule: TextRule):
    """Yield left sides and what the rule makes of them, until there are enough."""
    rng = random.Random(rule.name)
    found = 0
    for _ in range(TRIES):
        try:
            made = Instance(rule, rng)
            function = Function(
                tuple(p for p in made.params.values() if isinstance(p, Var)), made.root
            )
            site = Site(made.root, Purity(Module({"main": function})))
            right = rule.apply(made.root, site)
        except ShapeError:
            continue
        if right is None or right.checked_type != made.root.checked_type:
            continue
        found += 1
        yield function, right, rng
        if found == ENOUGH:
            return
    assert found >= 5, f"only {found} of {TRIES} random calls fit {rule.name}"


@pytest.mark.parametrize("rule", text_rules() + gradient_rules(), ids=lambda r: r.name)
def test_both_sides_of_a_rule_mean_the_same(rule):
    for function, right, rng in instances(rule):
        strange = 0.0 if rule.rounds else 0.4
        args = [random_array(p.checked_type, rng, strange) for p in function.params]
        results = []
        for body in (function.body, right):
            module = infer_types(Module({"main": Function(function.params, body)}))
            results.append(Evaluator(module).call("main", args))
        compare(rule, *results)


def compare(rule: TextRule, left: np.ndarray, right: np.ndarray) -> None:
    assert (left.dtype, left.shape) == (right.dtype, right.shape)
    if rule.rounds and left.dtype.kind == "f":
        # Operands are at most 4 and sums of their products may cancel.
        bound = 64 * float(finfo(left.dtype).eps)
        np.testing.assert_allclose(right, left, rtol=bound, atol=bound)
        return
    assert np.array_equal(left, right, equal_nan=left.dtype.kind == "f")
    if left.dtype.kind == "f":
        signs = [np.signbit(v) | np.isnan(v) for v in (left, right)]
        assert np.array_equal(*signs)


def test_a_rule_in_text_says_when_it_fits():
    (rule,) = parse_rules(
        """// a comment
        rule Twice
          negative(negative(%x)) => %x
          where floats(%x)
        """
    )
    for dtype, fits in (("float32", True), ("int32", False)):
        kind = TensorType((2,), BY_NAME[dtype])
        x = Var("x", kind, checked_type=kind)
        once = typed_call(OPS["negative"], (x,), Attrs(), None)
        root = typed_call(OPS["negative"], (once,), Attrs(), None)
        site = Site(root, Purity(Module()))
        assert (rule.apply(root, site) is x) is fits


@pytest.mark.parametrize("length", [20_000])
def test_long_chains_are_rewritten_in_linear_time(length):
    kind = TensorType((2,), BY_NAME["int32"])
    x = Var("x", kind)
    body: Expr = x
    for i in range(length):
        number = Constant(np.array(i % 3, np.int32))
        body = Call(OPS["add" if i % 2 else "multiply"], (body, number))
    module = infer_types(Module({"main": Function((x,), body)}))
    after = simplify_expr(module, exact=True)
    assert simplify_expr(after, exact=True) is after
    assert len(list(post_order(after["main"]))) < 2 * length


def steps_taken(length: int) -> int:
    lines = "".join(f"let %v{i + 1} = reshape(%v{i}, newshape=[2]);\n" for i in range(length))
    text = f"def @main(%v0: Tensor[(2), float32]) {{ {lines} %v{length} }}"
    module = infer_types(parse_program(text, OPS))
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        count += 1
        return trace if frame.f_code.co_filename.endswith("engine.py") else None

    sys.settrace(trace)
    try:
        simplify_expr(module)
    finally:
        sys.settrace(None)
    return count


def test_variables_that_only_rename_others_are_followed_in_linear_time():
    assert steps_taken(800) < 5 * steps_taken(200)
