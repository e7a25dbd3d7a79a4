"""Forms of calls that fuse better: biases as sums, and a widening cast beside each of its uses."""

from __future__ import annotations

from dataclasses import replace

from relayvm.base.dims import dims_equal
from relayvm.compiler.rewriting import CallRule, Site, rewrite_calls
from relayvm.compiler.rewriting.build import attrs_of, call, is_call, tensor
from relayvm.ir.expr import Call, Expr
from relayvm.ir.module import Module
from relayvm.ir.visit import built
from relayvm.ops import OPS
from relayvm.ops.operator import Fusion


def canonicalize_ops(module: Module) -> Module:
    """Write biases as sums.

    `nn.bias_add(%x, %b)` -> `add(%x, expand_dims(%b, axis=1, num_newaxis=2))` for `%x` of rank 4.
    A bias whose length is not known to be that of the axis stays: a sum would not check it.
    """
    return rewrite_calls(module, [CallRule("bias_add", "nn.bias_add", _bias_as_sum)])


def canonicalize_cast(module: Module) -> Module:
    """Give each user of a widening cast one of its own, so that the narrow tensor is read.

    `%0 = cast(%x, dtype="int32"); (add(%0, 1), exp(%0))` -> two casts. Only for elementwise and
    broadcasting users, which share a kernel with their cast.
    """
    users = [row.name for row in OPS.values() if row.fusion in _FUSING]
    return rewrite_calls(module, [CallRule("cast", name, _with_own_casts) for name in users])


_FUSING = (Fusion.ELEMENTWISE, Fusion.BROADCAST)


def _bias_as_sum(node: Call, site: Site) -> Expr | None:
    data, bias = node.args
    rank = tensor(data).rank
    axis = attrs_of(node)["axis"] % rank
    if dims_equal(tensor(data).shape[axis], tensor(bias).shape[0]) is not True:
        return None
    behind = rank - 1 - axis
    if behind:
        bias = call("expand_dims", (bias,), node.span, axis=1, num_newaxis=behind)
    return call("add", (data, bias), node.span)


def _with_own_casts(node: Call, site: Site) -> Expr | None:
    own: dict[int, Expr] = {}
    for arg in node.args:
        here = sum(other is arg for other in node.args)
        if _is_widening(arg) and site.knows(arg) and site.uses(arg) > here:
            own[id(arg)] = replace(arg)
    if not own:
        return None
    return built(node, (node.op, *(own.get(id(arg), arg) for arg in node.args)))


def _is_widening(expr: Expr) -> bool:
    if not isinstance(expr, Call) or not is_call(expr, "cast"):
        return False
    return tensor(expr.args[0]).dtype.bits < tensor(expr).dtype.bits
