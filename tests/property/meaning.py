"""Comparing what programs mean, and telling which pass first changed it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.passes import run_passes
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
        elif isinstance(x, tuple):
            if not isinstance(y, tuple) or len(x) != len(y):
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


def check_passes(typed: Module, args: Sequence[object], names: Sequence[str]) -> Module:
    """Run passes one by one; fails naming the first that changes the result of `main`."""
    expected = Evaluator(typed).call("main", args)
    module = typed
    for name in names:
        after = run_passes(module, [name], verify=True)
        result = Evaluator(after).call("main", args)
        assert same_value(expected, result), (
            f"first wrong after `{name}`: {expected!r} became {result!r}\n{print_module(typed)}"
        )
        module = after
    return module
