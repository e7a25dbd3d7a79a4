"""Comparing what programs mean, and telling which pass first changed it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.passes import PASSES, run_passes
from relayvm.compiler.steps import read_step
from relayvm.ir.module import Module
from relayvm.ir.printer import print_module


def same_value(a: object, b: object) -> bool:
    """Return True if two results are equal bit for bit; any NaN equals any other."""
    pending = [(a, b)]
    while pending:
        x, y = pending.pop()
        if isinstance(x, np.ndarray):
            if not isinstance(y, np.ndarray) or (x.dtype, x.shape) != (y.dtype, y.shape):
                return False
            differs = x.tobytes() != y.tobytes()
            if differs and not (x.dtype.kind == "f" and _same_floats(x, y)):
                return False
        elif isinstance(x, (tuple, list)):
            if type(x) is not type(y) or len(x) != len(y):
                return False
            pending.extend(zip(x, y))
        else:
            if x.tag != y.tag:
                return False
            pending.append((tuple(x.fields), tuple(y.fields)))
    return True


def _same_floats(x: np.ndarray, y: np.ndarray) -> bool:
    signs = np.array_equal(np.signbit(x) | np.isnan(x), np.signbit(y) | np.isnan(y))
    return signs and np.array_equal(x, y, equal_nan=True)


def same_kind(a: object, b: object) -> bool:
    """Return True if two results have the same dtypes, shapes and constructors."""
    pending = [(a, b)]
    while pending:
        x, y = pending.pop()
        if isinstance(x, np.ndarray):
            if not isinstance(y, np.ndarray) or (x.dtype, x.shape) != (y.dtype, y.shape):
                return False
        elif isinstance(x, (tuple, list)):
            if type(x) is not type(y) or len(x) != len(y):
                return False
            pending.extend(zip(x, y))
        elif type(x) is not type(y):
            return False
    return True


def check_passes(typed: Module, args: Sequence[object], names: Sequence[str]) -> Module:
    """Run passes one by one; fails naming the first that changes the result of `main`.

    Where a pass `rounds` a comparison may go the other way: only the kind of the result is
    compared. What its own tests say of the values is in `tests/compiler`.
    """
    steps = [read_step(name) for name in names]
    rounds = any(PASSES[name].rounds and not options.get("exact") for name, options in steps)
    same = same_kind if rounds else same_value
    expected = Evaluator(typed).call("main", args)
    module = typed
    for name in names:
        after = run_passes(module, [name], verify=True)
        result = Evaluator(after).call("main", args)
        assert same(expected, result), (
            f"first wrong after `{name}`: {expected!r} became {result!r}\n{print_module(typed)}"
        )
        module = after
    return module
