"""Gradients of layout changes, sums of products and Fourier transforms."""

from __future__ import annotations

import string

from relayvm.ir.expr import Expr, Tuple, TupleGetItem
from relayvm.ir.types import TensorType, TupleType
from relayvm.ops import rows
from relayvm.ops.broadcasting import collapse_sum_like
from relayvm.ops.creation import ones_like
from relayvm.ops.einstein import HIDDEN, Equation, einsum, read_equation
from relayvm.ops.elementwise import cast
from relayvm.ops.gradient_elementwise import Gradients
from relayvm.ops.gradient_expressions import count_of
from relayvm.ops.movement import transpose
from relayvm.ops.operator import GradientCall
from relayvm.ops.relayout import contrib_reverse_reshape, layout_transform
from relayvm.ops.reshaping import expand_dims, reshape_like
from relayvm.ops.rows import add
from relayvm.ops.scans import cumsum
from relayvm.ops.signal import dft, stft, stft_grad


@layout_transform.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return (layout_transform(g, src_layout=call.dst_layout, dst_layout=call.src_layout),)


@contrib_reverse_reshape.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return (reshape_like(g, call.data),)


@einsum.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    (data,) = call.types
    assert isinstance(data, TupleType)
    kinds = [t for t in data.fields if isinstance(t, TensorType)]
    found = read_equation(call.equation, tuple(t.rank for t in kinds))
    fields: list[Expr] = [TupleGetItem(call.data, k) for k in range(len(kinds))]
    return (Tuple(tuple(_slope(found, g, fields, k, kinds[k]) for k in range(len(kinds)))),)


def _term(labels: str) -> str:
    """Return labels as an equation has them."""
    hidden = "".join(a for a in labels if a in HIDDEN)
    return labels.replace(hidden, "...") if hidden else labels


def _slope(equation: Equation, g: Expr, fields: list[Expr], which: int, kind: TensorType) -> Expr:
    """Return the gradient of one operand: g times all others, summed over what it lacks."""
    own, field = equation.inputs[which], fields[which]
    operands, terms = [g], [equation.output]
    for k, other in enumerate(fields):
        if k != which:
            operands.append(other)
            terms.append(equation.inputs[k])
    if any(all(a not in t for t in terms) for a in own):
        operands.append(ones_like(field))
        terms.append(own)
    used = set("".join((*equation.inputs, equation.output)))
    spare = (a for a in string.ascii_letters if a not in used)
    labels = ""
    for axis, label in enumerate(own):
        if label in labels:
            # A label that stands twice takes the diagonal.
            fresh = next(spare)
            operands.append(_identity(field, kind, axis))
            terms.append(label + fresh)
            label = fresh
        labels += label
    hidden = [k for k, a in enumerate(labels) if a in HIDDEN]
    plain = [k for k, a in enumerate(labels) if a not in HIDDEN]
    dots = "..." if any(a in HIDDEN for a in equation.output) else ""
    result = dots + "".join(labels[k] for k in plain)
    total: Expr = einsum(
        Tuple(tuple(operands)), equation=f"{','.join(map(_term, terms))}->{result}"
    )
    order = (*hidden, *plain)
    if order == tuple(range(kind.rank)):
        return collapse_sum_like(total, field)
    summed = collapse_sum_like(total, transpose(field, axes=order))
    return transpose(summed, axes=tuple(order.index(k) for k in range(kind.rank)))


def _identity(field: Expr, kind: TensorType, axis: int) -> Expr:
    """Return the square matrix of ones along the diagonal, as long as an axis of a tensor."""
    others = tuple(k for k in range(kind.rank) if k != axis)
    line = cumsum(rows.ROWS["max"](ones_like(field), axis=others), axis=0)
    same = rows.equal(expand_dims(line, axis=0), expand_dims(line, axis=1))
    return cast(same, dtype=kind.dtype)


@dft.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    # The transform is its own transpose but for the sign of the angles.
    kind = call.type_of("re_data")
    size = count_of(call.re_data, kind.shape, (kind.rank - 1,), kind.dtype)
    back = dft(TupleGetItem(g, 0), TupleGetItem(g, 1), inverse=not call.inverse)
    scaled = rows.divide if call.inverse else rows.multiply
    return tuple(scaled(TupleGetItem(back, k), size) for k in (0, 1))


_STFT = ("n_fft", "hop_length", "win_length", "normalized", "onesided")


@stft.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    both = stft_grad(g, call.data, call.window, **{n: call.attrs[n] for n in _STFT})
    return TupleGetItem(both, 0), TupleGetItem(both, 1)


@stft_grad.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    # Both gradients are linear in `grad` and one of the others.
    of_data, of_window = TupleGetItem(g, 0), TupleGetItem(g, 1)
    attrs = dict(call.attrs)
    return (
        add(stft(of_data, call.window, **attrs), stft(call.data, of_window, **attrs)),
        TupleGetItem(stft_grad(call.grad, call.data, of_window, **attrs), 0),
        TupleGetItem(stft_grad(call.grad, of_data, call.window, **attrs), 1),
    )
