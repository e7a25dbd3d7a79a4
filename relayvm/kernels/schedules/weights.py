"""Products whose second operand is one long matrix for all rows, as the weights of a layer are."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from relayvm.base.dims import Dim, dim_mul
from relayvm.kernels import compute as c
from relayvm.kernels.schedules.plan import Stage, body_of, inlined_nodes, nodes

# Elements that a block of rows can read again from the first caches.
LONG = 1 << 14


def has_long_weights(stage: Stage, kept: AbstractSet[c.Tensor]) -> bool:
    """Return whether a stage multiplies its rows with a matrix that is long and the same for all.

    Such a stage is cut along its columns too, and reads a part of the matrix for many rows: blocks
    of a few rows that other stages share would read all of it again, and be few.
    """
    found = [t for t in stage.tensors if isinstance(t.op, c.Compute)]
    for tensor in tuple(found):
        loads = [m for m in inlined_nodes(tensor, kept) if isinstance(m, c.TensorLoad)]
        found += [m.tensor for m in loads if isinstance(m.tensor.op, c.Compute)]
    return any(_multiplies_long(t) for t in found if t not in kept or t in stage.tensors)


def _multiplies_long(tensor: c.Tensor) -> bool:
    body = body_of(tensor)
    long = [axis for axis in body.axes if axis.extent != 1]
    for reduction in nodes(body.body):
        product = reduction.body if isinstance(reduction, c.Reduce) else None
        if not isinstance(product, c.Scalar) or product.name != "multiply":
            continue
        both = [
            {m for m in nodes(factor) if isinstance(m, c.IndexVar) and m.extent != 1}
            for factor in product.args
        ]
        if both[0] == both[1]:
            continue  # A square, or rows two by two: nothing is the same for all rows.
        for used in both:
            if long and long[-1] in used and not any(axis in used for axis in long[:-1]):
                size: Dim = 1
                for axis in used:
                    size = dim_mul(size, axis.extent)
                if isinstance(size, int) and size > LONG:
                    return True
    return False
