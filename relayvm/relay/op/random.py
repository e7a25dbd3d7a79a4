"""Random numbers from explicit keys, by TVM's names."""

from __future__ import annotations

from typing import Any

import numpy as np

from relayvm.base.diagnostics import error
from relayvm.ir.expr import Constant, Expr
from relayvm.relay.expr import TupleWrapper, const
from relayvm.relay.op.make import as_expr, sizes, wrapped

KEY_WORDS = 10
SEED_BITS = 256


def threefry_key(seed: int) -> Constant:
    """Return the key of a seed: four words of it, then an empty path and counters.

    Raises RelayError `bad-option` for a seed below 0 or above 256 bits.
    """
    if not 0 <= seed < 1 << SEED_BITS:
        raise error("bad-option", f"`seed` is {seed}; it must be from 0 to 2**{SEED_BITS} - 1")
    words = np.zeros(KEY_WORDS, np.uint64)
    words[:4] = [seed >> 64 * i & (1 << 64) - 1 for i in range(4)]
    words[8] = 1 << 63
    return const(words, "uint64")


def threefry_generate(key: Expr, shape: Any) -> TupleWrapper:
    """Return the key that follows, and random words in a shape."""
    return wrapped(2, "random.threefry_generate", key, out_shape=sizes(shape))


def threefry_split(key: Expr) -> TupleWrapper:
    """Return two keys whose numbers are independent."""
    return wrapped(2, "random.threefry_split", key)


def uniform(
    key: Expr, shape: Any, dtype: str = "float32", low: Any = 0.0, high: Any = 1.0
) -> TupleWrapper:
    """Return the key that follows, and numbers spread evenly from `low` to below `high`."""
    return _distributed("random.uniform", key, shape, dtype, low, high)


def normal(
    key: Expr, shape: Any, dtype: str = "float32", mean: Any = 0.0, scale: Any = 1.0
) -> TupleWrapper:
    """Return the key that follows, and normally distributed numbers."""
    return _distributed("random.normal", key, shape, dtype, mean, scale)


def _distributed(
    name: str, key: Expr, shape: Any, dtype: str, first: Any, second: Any
) -> TupleWrapper:
    operands = [as_expr(v, None if isinstance(v, Expr) else dtype) for v in (first, second)]
    return wrapped(2, name, key, *operands, out_shape=sizes(shape), out_dtype=dtype)


def multinomial(key: Expr, probs: Expr, num_samples: int = 1) -> TupleWrapper:
    """Return the key that follows, and indices drawn by their probabilities."""
    return wrapped(2, "random.multinomial", key, probs, num_samples=num_samples)


__all__ = [
    "multinomial",
    "normal",
    "threefry_generate",
    "threefry_key",
    "threefry_split",
    "uniform",
]
