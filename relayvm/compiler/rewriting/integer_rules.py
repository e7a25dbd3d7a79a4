"""How operators on floats are computed on the integers that stand for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relayvm.base.dtypes import INT32, number_of
from relayvm.compiler.rewriting.affine import (
    Affine,
    Target,
    no_offset,
    product,
    quantized,
    quantized_constant,
)
from relayvm.compiler.rewriting.build import (
    attrs_of,
    call,
    cast,
    constant,
    is_static,
    tensor,
    tuple_of,
    typed_call,
)
from relayvm.ir.expr import Call, Constant, Expr
from relayvm.ops.operator import Operator


@dataclass(frozen=True, slots=True)
class Question:
    """A call whose operands have integer forms; None for an operand that is a constant of floats.

    A tuple of tensors comes as a tuple of forms.
    """

    node: Call
    operands: Sequence[Any]
    target: Target

    @property
    def only(self) -> Affine:
        """The form of the one operand."""
        form = self.operands[0]
        assert isinstance(form, Affine)
        return form

    def pair(self) -> tuple[Affine | None, Affine | None]:
        """Return the forms of two operands."""
        first, second = self.operands
        return first, second

    def attrs(self, *left_out: str) -> dict[str, Any]:
        """Return the attributes of the call without some."""
        return {n: v for n, v in attrs_of(self.node).items() if n not in left_out}


IntegerRule = Callable[[Question], "Affine | None"]


def _unchanged(q: Question) -> Affine | None:
    """Operators that move or select elements, with one scale for all of them."""
    x = q.only
    if not x.is_uniform:
        return None
    assert isinstance(q.node.op, Operator)
    return x.with_integers(typed_call(q.node.op, (x.integers,), q.node.attrs, q.node.span))


def _max_pool(q: Question) -> Affine | None:
    x = q.only
    assert isinstance(q.node.op, Operator)
    return x.with_integers(typed_call(q.node.op, (x.integers,), q.node.attrs, q.node.span))


def _avg_pool2d(q: Question) -> Affine | None:
    return _averaged(q, q.attrs())


def _global_avg_pool2d(q: Question) -> Affine | None:
    attrs, data = q.attrs(), q.node.args[0]
    layout = attrs["layout"]
    if not is_static(data.checked_type) or not layout.isalpha():
        return None
    size = tuple(tensor(data).shape[layout.index(letter)] for letter in "HW")
    return _averaged(q, {"pool_size": size, "layout": layout})


def _averaged(q: Question, attrs: dict[str, Any]) -> Affine | None:
    x = q.only
    if not x.is_uniform:
        return None
    operands = {
        "data": x.integers,
        "input_scale": x.scale,
        "input_zero_point": x.zero_point,
        "output_scale": x.scale,
        "output_zero_point": x.zero_point,
    }
    return x.with_integers(quantized("qnn.avg_pool2d", operands, q.node.span, **attrs))


def _contraction(name: str) -> IntegerRule:
    def rule(q: Question) -> Affine | None:
        x, w = q.pair()
        if x is None or w is None or not x.is_uniform:
            return None
        axis = _channels(name, q)
        if axis is None or (not w.is_uniform and w.axis != _weight_axis(name, q)):
            return None
        first, second = ("x", "y") if name == "qnn.batch_matmul" else ("data", "weight")
        scales = ("x", "y") if name == "qnn.batch_matmul" else ("input", "weight")
        operands = {first: x.integers, second: w.integers}
        for prefix, form in zip(scales, (x, w)):
            operands[f"{prefix}_scale"] = form.scale
            operands[f"{prefix}_zero_point"] = form.zero_point
        made = quantized(name, operands, q.node.span, **q.attrs("out_dtype"))
        return Affine(made, product(x.scale, w.scale), no_offset(), axis)

    return rule


def _channels(name: str, q: Question) -> int | None:
    """Return the axis of the result along which scales of weights differ."""
    if name in ("qnn.dense", "qnn.batch_matmul"):
        return tensor(q.node).rank - 1
    attrs = q.attrs()
    layout: str = attrs["out_layout"] or attrs["data_layout"]
    return layout.index("C") if layout.isalpha() else None


def _weight_axis(name: str, q: Question) -> int | None:
    if name == "qnn.dense":
        return 0
    kernel = q.attrs().get("kernel_layout", "")
    return kernel.index("O") if kernel.isalpha() and "O" in kernel else None


def _bias_add(q: Question) -> Affine | None:
    x, b = q.pair()
    if x is None or not x.is_centered:
        return None
    if b is None:
        bias = q.node.args[1]
        assert isinstance(bias, Constant)
        integers: Expr | None = quantized_constant(bias, x, x.dtype)
    else:
        wanted = Target(x.scale, x.zero_point, x.dtype, 0)
        integers = b.requantized(wanted, q.node.span).integers
    if integers is None:
        return None
    made = call("nn.bias_add", (x.integers, integers), q.node.span, **q.attrs())
    return x.with_integers(made)


def _concatenate(q: Question) -> Affine | None:
    (parts,) = q.operands
    if not isinstance(parts, tuple) or not all(_is_uniform(p) for p in parts):
        return None
    if len({p.dtype.name for p in parts}) != 1:
        return None
    first: Affine = parts[0]
    if all(p.has_scale_of(first) for p in parts):
        whole = tuple_of([p.integers for p in parts], q.node.span)
        return first.with_integers(call("concatenate", (whole,), q.node.span, **q.attrs()))
    operands = {
        "data": tuple_of([p.integers for p in parts]),
        "input_scales": tuple_of([p.scale for p in parts]),
        "input_zero_points": tuple_of([p.zero_point for p in parts]),
        "output_scale": q.target.scale,
        "output_zero_point": q.target.zero_point,
    }
    made = quantized("qnn.concatenate", operands, q.node.span, **q.attrs())
    return Affine(made, q.target.scale, q.target.zero_point, q.target.axis, wants_target=True)


def _is_uniform(part: Affine | None) -> bool:
    return part is not None and part.is_uniform


def _clip(q: Question) -> Affine | None:
    x = q.only
    attrs = q.attrs()
    bounds = []
    for value in (attrs["a_min"], attrs["a_max"]):
        bound = quantized_constant(Constant(np.array(value, np.float32)), x, x.dtype)
        if bound is None:
            return None
        bounds.append(float(number_of(bound.data)))
    made = call("clip", (x.integers,), q.node.span, a_min=bounds[0], a_max=bounds[1])
    return x.with_integers(made)


def _relu(q: Question) -> Affine | None:
    x = q.only
    if x.is_centered:
        zero: Expr = constant(0, x.dtype)
    elif x.is_uniform:
        zero = cast(call("reshape", (x.zero_point,), q.node.span, newshape=()), x.dtype)
    else:
        return None
    return x.with_integers(call("maximum", (x.integers, zero), q.node.span))


def _pad(q: Question) -> Affine | None:
    x, filling = q.pair()
    value = q.node.args[1]
    if x is None or not x.is_uniform:
        return None
    if filling is not None:
        wanted = Target(x.scale, x.zero_point, x.dtype, x.axis)
        integer: Expr | None = filling.requantized(wanted, q.node.span).integers
    else:
        assert isinstance(value, Constant)
        integer = quantized_constant(value, x, x.dtype)
    if integer is None:
        return None
    return x.with_integers(call("nn.pad", (x.integers, integer), q.node.span, **q.attrs()))


def _binary(name: str) -> IntegerRule:
    def rule(q: Question) -> Affine | None:
        forms = _both(q)
        if forms is None or not all(f.is_uniform for f in forms):
            return None
        left, right = forms
        simple = left.dtype is INT32 and left.is_centered and left.has_scale_of(right)
        if simple and right.dtype is INT32 and name in ("qnn.add", "qnn.subtract"):
            made = call(name.removeprefix("qnn."), (left.integers, right.integers), q.node.span)
            return left.with_integers(made)
        if left.dtype is not right.dtype or left.dtype is INT32:
            left, right = (f.requantized(q.target, q.node.span) for f in forms)
        operands = {
            "lhs": left.integers,
            "rhs": right.integers,
            "lhs_scale": left.scale,
            "lhs_zero_point": left.zero_point,
            "rhs_scale": right.scale,
            "rhs_zero_point": right.zero_point,
            "output_scale": q.target.scale,
            "output_zero_point": q.target.zero_point,
        }
        whole = quantized(name, operands, q.node.span)
        return Affine(whole, q.target.scale, q.target.zero_point, q.target.axis, wants_target=True)

    return rule


def _extremum(q: Question) -> Affine | None:
    """`minimum` and `maximum` compare integers of one scale."""
    forms = _both(q)
    if forms is None or not all(f.is_uniform for f in forms):
        return None
    left, right = forms
    if not left.has_scale_of(right) or left.dtype is not right.dtype:
        left, right = (f.requantized(q.target, q.node.span) for f in forms)
    assert isinstance(q.node.op, Operator)
    args = (left.integers, right.integers)
    made = left.with_integers(typed_call(q.node.op, args, q.node.attrs, q.node.span))
    kept = left is forms[0] and right is forms[1]
    return made if kept else Affine(made.integers, left.scale, left.zero_point, left.axis, True)


def _both(q: Question) -> tuple[Affine, Affine] | None:
    """Return the forms of two operands, one of which may be a constant of floats."""
    forms: list[Affine] = []
    for operand, arg in zip(q.operands, q.node.args):
        if operand is None:
            assert isinstance(arg, Constant)
            made = quantized_constant(arg, q.target, q.target.dtype)
            if made is None:
                return None
            operand = Affine(made, q.target.scale, q.target.zero_point, -1, wants_target=True)
        forms.append(operand)
    return forms[0], forms[1]


def _table(name: str) -> IntegerRule:
    """Functions of one number, for 8 bits a table."""

    def rule(q: Question) -> Affine | None:
        x = q.only
        if not x.is_uniform or x.dtype is not q.target.dtype or x.dtype.bits > 8:
            return None
        prefix = "input_" if name == "qnn.leaky_relu" else ""
        first = "data" if name in ("qnn.leaky_relu", "qnn.softmax") else "x"
        operands = {
            first: x.integers,
            f"{prefix}scale": x.scale,
            f"{prefix}zero_point": x.zero_point,
            "output_scale": q.target.scale,
            "output_zero_point": q.target.zero_point,
        }
        made = quantized(name, operands, q.node.span, **q.attrs())
        return Affine(made, q.target.scale, q.target.zero_point, q.target.axis, wants_target=True)

    return rule


_MOVEMENTS = (
    *("reshape", "squeeze", "strided_slice", "transpose", "expand_dims", "nn.batch_flatten"),
    *("nn.depth_to_space", "max", "min", "copy"),
)
_FUNCTIONS = ("tanh", "sigmoid", "exp", "log", "erf", "sqrt", "rsqrt", "abs")

INTEGER_RULES: dict[str, IntegerRule] = {
    **dict.fromkeys(_MOVEMENTS, _unchanged),
    **{name: _table(f"qnn.{name}") for name in _FUNCTIONS},
    "nn.max_pool2d": _max_pool,
    "nn.avg_pool2d": _avg_pool2d,
    "nn.global_avg_pool2d": _global_avg_pool2d,
    "nn.conv2d": _contraction("qnn.conv2d"),
    "nn.conv2d_transpose": _contraction("qnn.conv2d_transpose"),
    "nn.dense": _contraction("qnn.dense"),
    "nn.batch_matmul": _contraction("qnn.batch_matmul"),
    "nn.bias_add": _bias_add,
    "concatenate": _concatenate,
    "clip": _clip,
    "nn.relu": _relu,
    "nn.leaky_relu": _table("qnn.leaky_relu"),
    "nn.pad": _pad,
    "add": _binary("qnn.add"),
    "subtract": _binary("qnn.subtract"),
    "multiply": _binary("qnn.mul"),
    "minimum": _extremum,
    "maximum": _extremum,
}
OPTIONAL_RULES: dict[str, IntegerRule] = {"nn.softmax": _table("qnn.softmax")}
# What gains by integers even where no `quantize` follows.
GAINING = ("nn.conv2d", "nn.conv2d_transpose", "nn.dense", "nn.batch_matmul")
