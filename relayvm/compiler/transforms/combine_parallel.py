"""Products that share an operand, computed as one product and cut apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from relayvm.compiler.analysis.scopes import Scopes
from relayvm.compiler.rewriting.anchors import Anchors
from relayvm.compiler.rewriting.build import attrs_of, call, is_call, is_static, tensor, tuple_of
from relayvm.ir.expr import Attrs, Call, Expr, Function
from relayvm.ir.module import Module
from relayvm.ir.visit import post_order, with_parts


def combine_parallel_conv2d(module: Module, min_num_branches: int = 3) -> Module:
    """Compute convolutions of one tensor as one.

    `(nn.conv2d(%x, %w1), nn.conv2d(%x, %w2))` -> `%0 = nn.conv2d(%x, concatenate((%w1, %w2)))`, of
    which each takes its channels. They have equal attributes and kernel sizes and one group, stand
    in one scope, and their weights are constants or parameters, or follow from these alone. Each
    result sums the same terms as before; libraries for products may do so in another order.
    """
    return _combine(module, _Family("nn.conv2d", _conv2d_key, _one_conv2d), min_num_branches)


def combine_parallel_dense(
    module: Module, min_num_branches: int = 3, to_batch_matmul: bool = True
) -> Module:
    """Compute dense layers of one tensor as one, as `combine_parallel_conv2d` does.

    With `to_batch_matmul` as a batch of matrices of equal size, else as one of all their rows.
    """
    if to_batch_matmul:
        family = _Family("nn.dense", _equal_dense_key, _dense_batch)
    else:
        family = _Family("nn.dense", _dense_key, _one_dense)
    return _combine(module, family, min_num_branches)


def combine_parallel_batch_matmul(module: Module, min_num_branches: int = 3) -> Module:
    """Compute products of one batch of matrices as one, as `combine_parallel_conv2d` does."""
    family = _Family("nn.batch_matmul", _batch_matmul_key, _one_batch_matmul)
    return _combine(module, family, min_num_branches)


@dataclass(frozen=True, slots=True)
class _Family:
    """What is combined: calls of `op` with the same `key`, whose results `combined` gives."""

    op: str
    key: Callable[[Call], Hashable]
    combined: Callable[[Sequence[Call], Expr], Sequence[Expr]]


def _combine(module: Module, family: _Family, least: int) -> Module:
    functions = {}
    for name, function in module.functions.items():
        groups = _groups(function, family, max(least, 2))
        functions[name] = _rebuilt(function, family, groups) if groups else function
    return module.with_functions(functions)


def _groups(root: Function, family: _Family, least: int) -> list[list[Call]]:
    """Return the calls that can be combined, in order of evaluation."""
    calls = [n for n in post_order(root) if isinstance(n, Call) and is_call(n, family.op)]
    if len(calls) < least:
        return []
    anchors, scopes = Anchors(root), Scopes(root)
    by_key: dict[Hashable, list[Call]] = defaultdict(list)
    for node in calls:
        if is_static(node.args[1].checked_type) and anchors.hold(node.args[1]):
            by_key[id(node.args[0]), id(scopes.of(node)), family.key(node)].append(node)
    return [group for group in by_key.values() if len(group) >= least]


def _rebuilt(root: Function, family: _Family, groups: Sequence[Sequence[Call]]) -> Function:
    group_of = {id(node): group for group in groups for node in group}
    parts: dict[int, Expr] = {}
    done: dict[int, Expr] = {}
    for node in post_order(root):
        group = group_of.get(id(node))
        if group is None:
            done[id(node)] = with_parts(node, done)
            continue
        if id(node) not in parts:
            results = family.combined(group, done[id(group[0].args[0])])
            parts.update((id(member), result) for member, result in zip(group, results))
        done[id(node)] = parts[id(node)]
    result = done[id(root)]
    assert isinstance(result, Function)
    return result


def _attrs(node: Call, *left_out: str) -> Attrs:
    return Attrs({name: v for name, v in attrs_of(node).items() if name not in left_out})


def _joined(group: Sequence[Call], axis: int) -> Expr:
    return call("concatenate", (tuple_of([n.args[1] for n in group]),), group[0].span, axis=axis)


def _cut(whole: Expr, group: Sequence[Call], axis: int) -> list[Expr]:
    """Return the part of the whole that each call gives, one behind the other."""
    parts: list[Expr] = []
    start = 0
    for node in group:
        size = tensor(node).shape[axis]
        assert isinstance(size, int)
        cut: dict[str, Any] = {"begin": (start,), "end": (start + size,), "axes": (axis,)}
        parts.append(call("strided_slice", (whole,), node.span, **cut))
        start += size
    return parts


# --- convolutions ----------------------------------------------------------------------------


def _conv2d_key(node: Call) -> Hashable:
    attrs, weight = attrs_of(node), tensor(node.args[1])
    layout = attrs["kernel_layout"]
    if attrs["groups"] != 1 or not layout.isalpha() or not _channels_first_or_last(attrs):
        return id(node)
    kernel = tuple(d for d, letter in zip(weight.shape, layout) if letter != "O")
    return kernel, weight.dtype, _attrs(node, "channels")


def _channels_first_or_last(attrs: dict[str, Any]) -> bool:
    layout = attrs["out_layout"] or attrs["data_layout"]
    return layout.isalpha() and "C" in layout


def _one_conv2d(group: Sequence[Call], data: Expr) -> list[Expr]:
    first = group[0]
    attrs = attrs_of(first)
    axis = attrs["kernel_layout"].index("O")
    weight = _joined(group, axis)
    if attrs["channels"] is not None:
        attrs["channels"] = tensor(weight).shape[axis]
    whole = call("nn.conv2d", (data, weight), first.span, **attrs)
    return _cut(whole, group, (attrs["out_layout"] or attrs["data_layout"]).index("C"))


# --- dense layers ----------------------------------------------------------------------------


def _dense_key(node: Call) -> Hashable:
    return tensor(node.args[1]).dtype, _attrs(node, "units")


def _equal_dense_key(node: Call) -> Hashable:
    if tensor(node.args[0]).rank != 2:
        return id(node)
    return tensor(node.args[1]), _attrs(node)


def _one_dense(group: Sequence[Call], data: Expr) -> list[Expr]:
    first = group[0]
    attrs, weight = attrs_of(first), _joined(group, 0)
    if attrs["units"] is not None:
        attrs["units"] = tensor(weight).shape[0]
    whole = call("nn.dense", (data, weight), first.span, **attrs)
    return _cut(whole, group, tensor(first).rank - 1)


def _dense_batch(group: Sequence[Call], data: Expr) -> list[Expr]:
    span, out_dtype = group[0].span, attrs_of(group[0])["out_dtype"]
    batch = call("stack", (tuple_of([data] * len(group)),), span, axis=0)
    weights = call("stack", (tuple_of([n.args[1] for n in group]),), span, axis=0)
    options: dict[str, Any] = {"out_dtype": out_dtype, "transpose_b": True}
    whole = call("nn.batch_matmul", (batch, weights), span, **options)
    parts: list[Expr] = []
    for i, node in enumerate(group):
        part = call("strided_slice", (whole,), node.span, begin=(i,), end=(i + 1,), axes=(0,))
        parts.append(call("squeeze", (part,), node.span, axis=(0,)))
    return parts


# --- batches of matrices ---------------------------------------------------------------------


def _batch_matmul_key(node: Call) -> Hashable:
    weight = tensor(node.args[1])
    kept = 2 if attrs_of(node)["transpose_b"] else 1
    return weight.shape[0], weight.shape[kept], weight.dtype, _attrs(node)


def _one_batch_matmul(group: Sequence[Call], data: Expr) -> list[Expr]:
    first = group[0]
    attrs = attrs_of(first)
    weights = _joined(group, 1 if attrs["transpose_b"] else 2)
    whole = call("nn.batch_matmul", (data, weights), first.span, **attrs)
    return _cut(whole, group, 2)
