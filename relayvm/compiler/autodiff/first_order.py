"""Reverse-mode differentiation of straight-line code: the result has no references or closures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from relayvm.base.diagnostics import error
from relayvm.compiler.autodiff.adjoint_types import has_float, is_float
from relayvm.compiler.autodiff.conversions import Bindings, let_all
from relayvm.compiler.autodiff.prepare import prepared
from relayvm.compiler.autodiff.reverse import gradients_of
from relayvm.compiler.kinds import check_parts
from relayvm.ir.expr import (
    Call,
    Constant,
    Expr,
    Function,
    Let,
    Tuple,
    TupleGetItem,
    Var,
)
from relayvm.ir.module import Module
from relayvm.ir.types import UNIT, TensorType, TupleType, Type
from relayvm.ir.visit import TypeWords
from relayvm.ops import OPS
from relayvm.ops.operator import Operator, gradient_call


def first_order_gradient(function: Function, module: Module) -> Function:
    """Return `fn (params) -> (result, (gradients of the params))` of a function that only names
    values, calls operators and makes tuples.

    The gradient is that of the sum of all float elements of the result. Raises RelayError
    `no-gradient` at anything else.
    """
    name, typed = prepared(function, module)
    return _FirstOrder().run(typed[name])


class _FirstOrder:
    """Gradients by variable: one expression for a tensor, one a field for a tuple."""

    def __init__(self) -> None:
        self.out: Bindings = []
        self._gradients: dict[Var, dict[tuple[int, ...], Expr]] = {}

    def run(self, function: Function) -> Function:
        """Return the function that gives result and gradients."""
        lets: list[tuple[Var, Expr]] = []
        node = function.body
        while isinstance(node, Let):
            lets.append((node.var, node.value))
            node = node.body
        result = Var("result", checked_type=node.checked_type)
        lets.append((result, node))
        self.out = list(lets)
        words = TypeWords()
        for var in (result, *function.params):
            check_parts(var.checked_type or UNIT, var.span or function.span, words)
        self._seed(result, (), result.checked_type)
        for variable, value in reversed(lets):
            self._back(variable, value)
        gradients = tuple(self._total(p, (), p.checked_type) for p in function.params)
        body = let_all(self.out, Tuple((result, Tuple(gradients))))
        return replace(function, body=body, ret_type=None, checked_type=None)

    def _of(self, variable: Var) -> dict[tuple[int, ...], Expr]:
        return self._gradients.setdefault(variable, {})

    def _seed(self, variable: Var, path: tuple[int, ...], type_: Type | None) -> None:
        if isinstance(type_, TupleType):
            for i, field in enumerate(type_.fields):
                self._seed(variable, (*path, i), field)
        elif is_float(type_):
            self._of(variable)[path] = OPS["ones_like"](_at(variable, path))

    def _add(self, variable: Expr, path: tuple[int, ...], gradient: Expr) -> None:
        if not isinstance(variable, Var):
            return
        known = self._of(variable).get(path)
        total = gradient if known is None else OPS["add"](known, gradient)
        named = Var("g")
        self.out.append((named, total))
        self._of(variable)[path] = named

    def _total(self, variable: Var, path: tuple[int, ...], type_: Type | None) -> Expr:
        """Return the gradient of a variable, zeros where nothing reached it."""
        if isinstance(type_, TupleType):
            return Tuple(
                tuple(self._total(variable, (*path, i), t) for i, t in enumerate(type_.fields))
            )
        if not isinstance(type_, TensorType):
            raise error("no-gradient", f"`%{variable.name}` is neither tensor nor tuple")
        known = self._of(variable).get(path)
        return OPS["zeros_like"](_at(variable, path)) if known is None else known

    def _back(self, variable: Var, value: Expr) -> None:
        reached = dict(self._of(variable))
        match value:
            case Var():
                for path, g in reached.items():
                    self._add(value, path, g)
            case Tuple():
                for path, g in reached.items():
                    self._add(value.fields[path[0]], path[1:], g)
            case TupleGetItem():
                for path, g in reached.items():
                    self._add(value.tuple_value, (value.index, *path), g)
            case Call(op=Operator()):
                if reached:
                    self._back_call(variable, value)
            case Constant():
                pass
            case _:
                is_call = isinstance(value, Call)
                what = "a call of a function" if is_call else f"a `{type(value).__name__}`"
                raise error(
                    "no-gradient",
                    f"first-order differentiation is for straight-line code, not for {what}",
                    value.span,
                    help="`higher_order` differentiation follows the whole language",
                )

    def _back_call(self, variable: Var, call: Call) -> None:
        op = call.op
        assert isinstance(op, Operator)
        types = [a.checked_type for a in call.args]
        known = [t for t in types if t is not None]
        assert len(known) == len(types) and call.checked_type is not None
        if not any(has_float(t) for a, t in zip(call.args, known) if not isinstance(a, Constant)):
            return
        g = self._total(variable, (), call.checked_type)
        view = gradient_call(op, call.args, call.attrs, variable, known, call.checked_type)
        for arg, type_, gradient in zip(call.args, known, gradients_of(call, op, view, g)):
            if gradient is not None:
                self._spread(arg, type_, gradient)

    def _spread(self, arg: Expr, type_: Type, gradient: Expr) -> None:
        fields: Sequence[tuple[tuple[int, ...], Type, Expr]] = [((), type_, gradient)]
        waiting = list(fields)
        while waiting:
            path, kind, g = waiting.pop()
            if isinstance(kind, TupleType):
                for i, field in enumerate(kind.fields):
                    item = g.fields[i] if isinstance(g, Tuple) else TupleGetItem(g, i)
                    waiting.append(((*path, i), field, item))
            elif is_float(kind):
                self._add(arg, path, g)


def _at(variable: Expr, path: tuple[int, ...]) -> Expr:
    for index in path:
        variable = TupleGetItem(variable, index)
    return variable
