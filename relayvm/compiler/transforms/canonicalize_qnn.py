"""Quantized operators written as the operators on integers that they are made of, or as tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from relayvm.base.dtypes import INT32, UINT8, DType
from relayvm.compiler.analysis.purity import Purity
from relayvm.compiler.analysis.scopes import is_atomic
from relayvm.ir.expr import Call, Constant, Expr, Function, Let, Var
from relayvm.ir.module import Module
from relayvm.ir.types import TensorType, TupleType, Type
from relayvm.ir.visit import rebuild
from relayvm.ops import OPS
from relayvm.ops.composing import EXPRESSIONS, FORMS
from relayvm.ops.operator import Operator
from relayvm.ops.quantized import UNARY

_TABLE_BITS = 8


def canonicalize_qnn(module: Module) -> Module:
    """Replace each quantized operator by the operators that define it, with the same results.

    Left as they are: calls with a vector of scales or zero points of unknown size, which the
    operator checks. Requires TYPED.
    """
    purity = Purity(module)

    def transform(before: Expr, after: Expr) -> Expr:
        if not isinstance(before, Call) or not isinstance(before.op, Operator):
            return after
        form = FORMS.get(before.op.name)
        types = [arg.checked_type for arg in before.args]
        if form is None or not all(map(_has_known_vectors, types[1:])):
            return after
        assert isinstance(after, Call)
        row = before.op

        def made(args: Sequence[Expr]) -> Expr:
            result: Expr = form(EXPRESSIONS, types, args, row.complete_attrs(before.attrs))
            return result

        return _with_operands(purity, before, after, made)

    return _mapped(module, transform)


def legalize_qnn(module: Module) -> Module:
    """Replace functions of numbers of 8 bits, whose scales and zero points are constants, by
    look-ups in tables of their results. Requires TYPED.
    """

    def transform(before: Expr, after: Expr) -> Expr:
        if not isinstance(before, Call) or before.op not in UNARY:
            return after
        assert isinstance(after, Call)
        row, parameters = before.op, after.args[1:]
        data = before.args[0].checked_type
        assert isinstance(row, Operator) and isinstance(data, TensorType)
        constants = [p.data for p in parameters if isinstance(p, Constant)]
        if data.dtype.bits != _TABLE_BITS or len(constants) != len(parameters):
            return after
        return _looked_up(row, after.args[0], data.dtype, constants)

    return _mapped(module, transform)


def _looked_up(row: Operator, data: Expr, dtype: DType, constants: list[np.ndarray]) -> Expr:
    values = np.arange(1 << _TABLE_BITS, dtype=np.uint8).view(dtype.numpy)
    table = row.evaluate([values, *(np.asarray(c) for c in constants)], {})
    assert isinstance(table, np.ndarray)
    bits = data if dtype is UINT8 else OPS["reinterpret"](data, dtype=UINT8)
    places = OPS["cast"](bits, dtype=INT32)
    return OPS["take"](Constant(table), places, axis=0, mode="clip")


def _mapped(module: Module, transform: Callable[[Expr, Expr], Expr]) -> Module:
    functions: dict[str, Function] = {}
    for name, function in module.functions.items():
        new = rebuild(function, transform)
        assert isinstance(new, Function)
        functions[name] = new
    return module.with_functions(functions)


def _has_known_vectors(given: Type | None) -> bool:
    if isinstance(given, TupleType):
        return all(map(_has_known_vectors, given.fields))
    assert isinstance(given, TensorType)
    return given.rank != 1 or isinstance(given.shape[0], int)


def _with_operands(
    purity: Purity, before: Call, after: Call, made: Callable[[Sequence[Expr]], Expr]
) -> Expr:
    """Return what `made` gives of the operands, evaluated first and in order if any has effects."""
    if all(purity.is_pure(arg) for arg in before.args):
        return made(after.args)
    assert isinstance(before.op, Operator)
    names = [
        arg if is_atomic(arg) else Var(operand.name, checked_type=old.checked_type)
        for arg, old, operand in zip(after.args, before.args, before.op.operands)
    ]
    body = made(names)
    for name, arg in reversed(list(zip(names, after.args))):
        if name is not arg:
            assert isinstance(name, Var)
            body = Let(name, arg, body, span=before.span)
    return body
