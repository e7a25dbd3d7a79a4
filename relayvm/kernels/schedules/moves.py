"""Uses that take each element of a tensor exactly once, at another index: reshapes, transposes."""

from __future__ import annotations

from relayvm.kernels import compute as c
from relayvm.kernels import loops as n
from relayvm.kernels.index import simplify as s
from relayvm.kernels.schedules.emit import CannotVectorise, Context, Emitter, Frame, Names
from relayvm.kernels.schedules.plan import Use, body_of, nodes
from relayvm.kernels.schedules.reduction import serial


def moves_all(context: Context, use: Use) -> bool:
    """Return whether a use takes each element exactly once, those of the last axis in order.

    What computes such a tensor may as well write it where it is used.
    """
    if use.reduction is not None:
        return False
    if any(isinstance(m, c.TensorLoad) for index in use.load.indices for m in nodes(index)):
        return False
    trial = Context(Names(), context.dims, {})
    emitter = Emitter(trial, serial)
    frame: Frame = {}
    extents: dict[n.Expr, n.Expr] = {}
    for axis in body_of(use.reader).axes:
        extent = context.dim(axis.extent)
        if extent == n.const(1):
            frame[axis] = n.const(0)
            continue
        var = n.Var(f"p{len(extents)}")
        frame[axis] = var
        emitter.prover.add_range(var, n.const(0), extent)
        extents[var] = extent
    try:
        indices = [emitter.value(index, frame) for index in use.load.indices]
    except CannotVectorise:
        return False
    shape = [context.dim(d) for d in use.load.tensor.shape]
    return bool(extents) and not emitter.statements and _is_whole(indices, shape, extents)


def _is_whole(indices: list[n.Expr], shape: list[n.Expr], extents: dict[n.Expr, n.Expr]) -> bool:
    """Return whether the indices count through all of a shape when the variables run."""
    left = dict(extents)
    last: n.Expr | None = None
    for index, size in zip(indices, shape):
        terms = s.polynomial(index)
        if any(len(term) != 1 or term[0] not in left for term in terms):
            return False
        stride: n.Expr = n.const(1)
        for (var,), factor in sorted(terms.items(), key=lambda term: term[1]):
            if stride != n.const(factor):
                return False
            last = var if factor == 1 else last
            stride = s.mul(stride, left.pop(var))
        if stride != size:
            return False
    return not left and last == list(extents)[-1]
