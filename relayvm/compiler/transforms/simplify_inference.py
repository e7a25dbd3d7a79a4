"""Layers that do something else in training, written as what they do in inference.

The expressions compute as the operators do, in the same order: narrow floats through float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from relayvm.base.dims import dims_equal
from relayvm.base.dtypes import FLOAT32, NARROW, DType
from relayvm.compiler.analysis.purity import Purity
from relayvm.compiler.analysis.scopes import is_atomic
from relayvm.ir.expr import Attrs, AttrValue, Call, Constant, Expr, Let, Tuple, TupleGetItem, Var
from relayvm.ir.module import Module
from relayvm.ir.types import TensorType, Type
from relayvm.ir.visit import rebuild
from relayvm.ops import OPS
from relayvm.ops.axes import require_axis
from relayvm.ops.normalization_layers import length_axes
from relayvm.ops.operator import Operator


def simplify_inference(module: Module, every_norm: bool = False) -> Module:
    """Replace batch norm and dropout by elementwise operators.

    `nn.batch_norm(%x, %g, %b, %m, %v).0` -> `add(multiply(%x, %s), %t)`, where `%s` and `%t` follow
    from the vectors and are constants if these are; `nn.dropout(%x).0` -> `%x`. With `every_norm`
    also instance, layer, group norm and l2_normalize: their own kernels are better than those of
    the operators they are made of, which a differentiation or a rewrite may want to see.
    """
    purity = Purity(module)
    functions = {}
    for name, function in module.functions.items():
        functions[name] = rebuild(function, _Simplifier(purity, every_norm).transform)
    return module.with_functions(functions)  # type: ignore[arg-type]


class _Simplifier:
    def __init__(self, purity: Purity, every_norm: bool) -> None:
        self.purity = purity
        self.rules = {**_LAYERS, **(_NORMS if every_norm else {})}

    def transform(self, before: Expr, after: Expr) -> Expr:
        """Return what takes the place of a node whose operands have been replaced."""
        if isinstance(before, TupleGetItem) and isinstance(before.tuple_value, Call):
            assert isinstance(after, TupleGetItem)
            whole = after.tuple_value
            if before.tuple_value.op in _LAYERS and isinstance(whole, Tuple):
                return whole.fields[after.index]
        if not isinstance(before, Call) or before.op not in self.rules:
            return after
        assert isinstance(after, Call) and isinstance(before.op, Operator)
        rule = self.rules[before.op]
        types = [arg.checked_type for arg in before.args]
        if not _sizes_agree(before, types):
            return after
        if all(self.purity.is_pure(arg) for arg in before.args):
            return _Layer(after, after.args, types).expanded(rule)
        # Operands with effects are evaluated once, all of them, in their order.
        names = [
            arg if is_atomic(arg) else Var(operand.name, checked_type=arg.checked_type)
            for arg, operand in zip(after.args, before.op.operands)
        ]
        body = _Layer(after, names, types).expanded(rule)
        for name, arg in reversed(list(zip(names, after.args))):
            if name is not arg:
                assert isinstance(name, Var)
                body = Let(name, arg, body, span=before.span)
        return body


def _sizes_agree(call: Call, types: Sequence[Type | None]) -> bool:
    """Return whether vectors are known to have an element for each channel: broadcasts would not
    check it. Channels in groups must be counted.
    """
    data, *vectors = types
    if not vectors:
        return True
    assert isinstance(data, TensorType) and isinstance(call.op, Operator)
    size = data.shape[call.op.complete_attrs(call.attrs)["axis"]]
    if call.op is OPS["nn.group_norm"] and not isinstance(size, int):
        return False
    return all(isinstance(v, TensorType) and dims_equal(v.shape[0], size) is True for v in vectors)


class _Layer:
    """One call that is expanded: its operands and attributes, and makers of calls in its place."""

    def __init__(self, call: Call, args: Sequence[Expr], types: Sequence[Type | None]) -> None:
        self.call = call
        self.args = tuple(args)
        assert isinstance(call.op, Operator)
        self.attrs = call.op.complete_attrs(call.attrs)
        data = types[0]
        assert isinstance(data, TensorType)
        self.data = data

    def expanded(self, rule: Callable[[_Layer], Expr]) -> Expr:
        """Return what a rule makes of the call."""
        return rule(self)

    @property
    def dtype(self) -> DType:
        """The dtype in which the layer computes."""
        return FLOAT32 if self.data.dtype in NARROW else self.data.dtype

    def op(self, name: str, *args: Expr, **attrs: AttrValue) -> Expr:
        """Return a call with the span of the layer."""
        return Call(OPS[name], args, Attrs(attrs), span=self.call.span)

    def number(self, value: float) -> Constant:
        """Return a rank-0 constant."""
        return Constant(self.dtype.array(value))

    def wide(self, index: int) -> Expr:
        """Return an operand in the dtype of the computation."""
        arg = self.args[index]
        return arg if self.dtype is self.data.dtype else self.op("cast", arg, dtype=self.dtype)

    def narrow(self, value: Expr) -> Expr:
        """Return a result in the dtype of the data."""
        if self.dtype is self.data.dtype:
            return value
        return self.op("cast", value, dtype=self.data.dtype)

    def along(self, vector: Expr, axis: int) -> Expr:
        """Return a vector so that it is broadcast along an axis of the data."""
        behind = self.data.rank - 1 - axis
        if not behind:
            return vector
        return self.op("expand_dims", vector, axis=1, num_newaxis=behind)

    def axis(self) -> int:
        """Return the attribute `axis` counted from the front."""
        return require_axis(self.attrs["axis"], self.data.rank)


def _batch_norm(layer: _Layer) -> Expr:
    axis, attrs, op = layer.axis(), layer.attrs, layer.op
    root = op("sqrt", op("add", layer.wide(4), layer.number(attrs["epsilon"])))
    factor = op("divide", layer.number(1), root)
    if attrs["scale"]:
        factor = op("multiply", factor, layer.wide(1))
    shift = op("multiply", op("negative", layer.wide(3)), factor)
    if attrs["center"]:
        shift = op("add", shift, layer.wide(2))
    product = op("multiply", layer.wide(0), layer.along(factor, axis))
    result = layer.narrow(op("add", product, layer.along(shift, axis)))
    return Tuple((result, layer.args[3], layer.args[4]), span=layer.call.span)


def _dropout(layer: _Layer) -> Expr:
    data = layer.args[0]
    return Tuple((data, layer.op("ones_like", data)), span=layer.call.span)


def _normalised(layer: _Layer, x: Expr, axes: Sequence[int]) -> Expr:
    op, axis = layer.op, tuple(axes)
    distance = op("subtract", x, op("mean", x, axis=axis, keepdims=True))
    square = op("multiply", distance, distance)
    variance = op("mean", square, axis=axis, keepdims=True)
    deviation = op("sqrt", op("add", variance, layer.number(layer.attrs["epsilon"])))
    return op("divide", distance, deviation)


def _with_vectors(layer: _Layer, z: Expr) -> Expr:
    axis, op = layer.axis(), layer.op
    if layer.attrs["scale"]:
        z = op("multiply", z, layer.along(layer.wide(1), axis))
    if layer.attrs["center"]:
        z = op("add", z, layer.along(layer.wide(2), axis))
    return layer.narrow(z)


def _layer_norm(layer: _Layer) -> Expr:
    return _with_vectors(layer, _normalised(layer, layer.wide(0), [layer.axis()]))


def _instance_norm(layer: _Layer) -> Expr:
    axes = [k for k in range(1, layer.data.rank) if k != layer.axis()]
    return _with_vectors(layer, _normalised(layer, layer.wide(0), axes))


def _group_norm(layer: _Layer) -> Expr:
    axis, groups = layer.axis(), layer.attrs["num_groups"]
    split = layer.op("reshape", layer.wide(0), newshape=(*(0,) * axis, -4, groups, -1, -2))
    axes = [k for k in range(1, layer.data.rank + 1) if k != axis]
    joined = (*(0,) * axis, -3, -2)
    return _with_vectors(
        layer, layer.op("reshape", _normalised(layer, split, axes), newshape=joined)
    )


def _l2_normalize(layer: _Layer) -> Expr:
    op, x = layer.op, layer.wide(0)
    axes = length_axes(layer.attrs["axis"], layer.data.rank)
    total = op("sum", op("multiply", x, x), axis=axes, keepdims=True)
    kept = op("maximum", total, layer.number(layer.attrs["eps"]))
    return layer.narrow(op("divide", x, op("sqrt", kept)))


_LAYERS = {OPS["nn.batch_norm"]: _batch_norm, OPS["nn.dropout"]: _dropout}
_NORMS = {
    OPS["nn.layer_norm"]: _layer_norm,
    OPS["nn.instance_norm"]: _instance_norm,
    OPS["nn.group_norm"]: _group_norm,
    OPS["nn.l2_normalize"]: _l2_normalize,
}
