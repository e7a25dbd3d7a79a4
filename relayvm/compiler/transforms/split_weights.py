"""Rows of constant weights, as whole vectors and what is left of each.

Rows that are no whole number of vectors begin anywhere in a line of the cache, and so each vector
of them lies in two lines. Works on kernels; what `lay_out_weights` gives them runs along memory.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np

from relayvm.base.dtypes import FLOAT32, FLOAT64
from relayvm.compiler.analysis.scopes import is_primitive
from relayvm.compiler.rewriting.build import attrs_of, call, is_call, tensor, tuple_of
from relayvm.compiler.transforms.blocks import Binding, named, rebuild_block, rewrite_blocks
from relayvm.compiler.transforms.fusion_groups import MAX_TENSORS
from relayvm.ir.expr import Call, Constant, Expr, Function, Var
from relayvm.ir.module import Module
from relayvm.ir.types import FuncType, TensorType, TupleType
from relayvm.ir.visit import children, post_order

# Elements of a vector of partials; those of four bytes and more fill whole lines of the cache.
LANES = 16
_WHOLE_LINES = (FLOAT32, FLOAT64)
# Shorter rows have few vectors, and small weights are read in no time.
SHORTEST_ROW = 64
LEAST_BYTES = 1 << 12
# Larger weights come from beyond a core's own caches, which takes longer than to read lines twice.
MOST_BYTES = 1 << 22
# More rows share what they read of the weights, and spend their time on sums.
MOST_ROWS = 4
_PRODUCTS = ("nn.dense", "nn.matmul", "nn.batch_matmul")


def split_weights(module: Module) -> Module:
    """Cut the rows of constant weights that kernels multiply with few rows of data.

    `fn (%p0, %p1, Primitive=1) { nn.dense(%p0, %p1) }(%x, w)` ->
    `fn (%p0, %a, %b, Primitive=1) { nn.dense(%p0, concatenate((%a, %b), axis=-1)) }(%x, w1, w2)`
    where `w1` has all whole vectors of 16 elements of each row of `w`, and `w2` the rest. A kernel
    reads both where they are, in the order of before: no bit changes. Requires TYPED; where nothing
    is fused, there is nothing to do.
    """
    cuts = _Cuts()
    functions = {}
    for name, function in module.functions.items():
        new = function if is_primitive(function) else _in_function(function, cuts)
        functions[name] = new
    if all(functions[name] is old for name, old in module.functions.items()):
        return module
    return module.with_functions(functions)


def _in_function(function: Function, cuts: _Cuts) -> Function:
    if all(cuts.value(node) is node for node in post_order(function)):
        return function
    result = rewrite_blocks(function, cuts.block, skip=is_primitive)
    assert isinstance(result, Function)
    return result


@dataclass(slots=True)
class _Cuts:
    """Rewrites calls of kernels; one constant is cut once, however often it is used."""

    known: dict[int, tuple[Constant, Constant, Constant]] = field(default_factory=dict)

    def block(self, bindings: list[Binding], tail: Expr) -> Expr:
        """Return a block with the weights of its kernels cut."""
        new = [replace(b, value=self.value(b.value)) for b in bindings]
        return rebuild_block(new, self.value(tail))

    def value(self, value: Expr) -> Expr:
        """Return a call of a kernel with its weights cut; any other value as it is."""
        if not isinstance(value, Call) or not isinstance(value.op, Function):
            return value
        if not is_primitive(value.op) or not any(map(_is_fit, value.args)):
            return value
        weights = _weights_of(value.op)
        room = MAX_TENSORS - len(value.args) - _results(value.op)
        for param, arg in zip(value.op.params, value.args):
            if room > 0 and param in weights and _is_fit(arg):
                assert isinstance(arg, Constant)
                value, room = _with_parts(value, param, self._parts(arg)), room - 1
        return value

    def _parts(self, weight: Constant) -> tuple[Constant, Constant]:
        if id(weight) not in self.known:
            whole = weight.data.shape[-1] // LANES * LANES
            parts = (weight.data[..., :whole], weight.data[..., whole:])
            first, rest = (_constant(part, weight) for part in parts)
            self.known[id(weight)] = weight, first, rest
        return self.known[id(weight)][1:]


def _constant(data: np.ndarray, source: Constant) -> Constant:
    kind = TensorType(data.shape, tensor(source).dtype)
    return Constant(np.ascontiguousarray(data), span=source.span, checked_type=kind)


def _is_fit(arg: Expr) -> bool:
    """Return whether an operand is a constant of such a size that cutting its rows pays."""
    if not isinstance(arg, Constant) or arg.data.ndim < 2 or tensor(arg).dtype not in _WHOLE_LINES:
        return False
    length = arg.data.shape[-1]
    is_cut = length >= SHORTEST_ROW and length % LANES != 0
    return is_cut and LEAST_BYTES <= arg.data.nbytes <= MOST_BYTES


def _weights_of(kernel: Function) -> set[Var]:
    """Return the parameters that a kernel only multiplies with few rows, along their last axis."""
    used: Counter[Expr] = Counter()
    multiplied: Counter[Expr] = Counter()
    for node in post_order(kernel.body):
        used.update(children(node))
        if isinstance(node, Call) and _reads_rows(node):
            multiplied[node.args[1]] += 1
    return {var for var in kernel.params if 0 < multiplied[var] == used[var]}


def _reads_rows(product: Call) -> bool:
    if not any(is_call(product, name) for name in _PRODUCTS):
        return False
    attrs, data = attrs_of(product), tensor(product.args[0])
    if attrs.get("transpose_a") or not attrs.get("transpose_b", True):
        return False
    outer = data.shape[-2:-1] if is_call(product, "nn.batch_matmul") else data.shape[:-1]
    known = [d for d in outer if isinstance(d, int)]
    return len(known) == len(outer) and math.prod(known) <= MOST_ROWS


def _results(kernel: Function) -> int:
    kind = kernel.body.checked_type
    return len(kind.fields) if isinstance(kind, TupleType) else 1


def _with_parts(value: Call, param: Var, parts: tuple[Constant, Constant]) -> Call:
    """Return a call of a kernel that is given the parts of one operand and joins them."""
    kernel = value.op
    assert isinstance(kernel, Function)
    place = kernel.params.index(param)
    new = tuple(_param(f"{param.name}_{k}", part) for k, part in enumerate(parts))
    both = tuple_of(new)
    whole = named("t", both)
    joined = call("concatenate", (whole,), param.span, axis=-1)
    params = (*kernel.params[:place], *new, *kernel.params[place + 1 :])
    body = rebuild_block([Binding(whole, both), Binding(param, joined)], kernel.body)
    old = kernel.checked_type
    assert isinstance(old, FuncType)
    signature = FuncType(tuple(tensor(p) for p in params), old.ret_type)
    function = replace(kernel, params=params, body=body, checked_type=signature)
    args = (*value.args[:place], *parts, *value.args[place + 1 :])
    return replace(value, op=function, args=args)


def _param(name: str, value: Constant) -> Var:
    kind = tensor(value)
    return Var(name, kind, span=value.span, checked_type=kind)
