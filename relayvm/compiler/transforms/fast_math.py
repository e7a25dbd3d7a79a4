"""Faster arithmetic that rounds otherwise: products for quotients, approximations for functions."""

from __future__ import annotations

import numpy as np

from relayvm.base.narrow.arrays import readable
from relayvm.compiler.rewriting import CallRule, Site, rewrite_calls
from relayvm.compiler.rewriting.build import call, constant, tensor
from relayvm.ir.expr import Call, Constant, Expr
from relayvm.ir.module import Module

_FAST = {
    "exp": "fast_exp",
    "erf": "fast_erf",
    "tanh": "fast_tanh",
    "nn.softmax": "nn.fast_softmax",
}


def fast_math(module: Module) -> Module:
    """Put the approximations of exp, erf, tanh and softmax in their places: `exp(%x)` ->
    `fast_exp(%x)`.
    """
    rules = [CallRule(name, name, _approximated, rounds=True) for name in _FAST]
    return rewrite_calls(module, rules)


def div_to_mul(module: Module) -> Module:
    """Multiply by reciprocals: `divide(%x, 4f)` -> `multiply(%x, 0.25f)`.

    Only floats, and only where divisor and reciprocal are finite and not subnormal: then the result
    is within 1.5 units in the last place, and the same for powers of two.
    """
    return rewrite_calls(module, [CallRule("div_to_mul", "divide", _as_product, rounds=True)])


def _approximated(node: Call, site: Site) -> Expr | None:
    return call(_FAST[node.op.name], node.args, node.span, **node.attrs)  # type: ignore[attr-defined]


def _as_product(node: Call, site: Site) -> Expr | None:
    divisor = node.args[1]
    dtype = tensor(node).dtype
    if not isinstance(divisor, Constant) or not dtype.is_float:
        return None
    smallest = dtype.tiny
    with np.errstate(all="ignore"):
        reciprocal = dtype.array(1 / readable(divisor.data))
    for values in (np.abs(readable(divisor.data)), np.abs(readable(reciprocal))):
        if not np.all(np.isfinite(values)) or not np.all(values >= smallest):
            return None
    return call("multiply", (node.args[0], constant(reciprocal, dtype)), node.span)
