"""Arguments are compared with the sizes that a call declares, where its callee leaves them open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from relayvm.compiler.infer_types import needs_check
from relayvm.ir.expr import Call, Expr, Function, Let, Var
from relayvm.ir.types import FuncType, Type
from relayvm.ir.visit import rebuild


def with_checked_arguments(call: Call, wanted: Sequence[Type]) -> Expr:
    """Return a call whose arguments are compared with the types that are wanted.

    `Cons(%x, f())` -> `let %b = f(); let %a: Tensor[(3), float32] = %x; Cons(%a, %b)`: all are
    evaluated before the first is compared. Returns the call where types tell.
    """
    pairs = [
        (arg, kind if arg.checked_type and needs_check(arg.checked_type, kind) else None)
        for arg, kind in zip(call.args, wanted)
    ]
    if not any(kind for _, kind in pairs):
        return call
    named: list[tuple[Var, Expr]] = []
    checked: list[tuple[Var, Expr]] = []
    args: list[Expr] = []
    for arg, kind in pairs:
        if not isinstance(arg, Var):
            var = Var("v", arg.checked_type, span=arg.span, checked_type=arg.checked_type)
            named.append((var, arg))
            arg = var
        if kind is not None:
            known = Var("v", kind, span=arg.span, checked_type=kind)
            checked.append((known, arg))
            arg = known
        args.append(arg)
    body: Expr = replace(call, args=tuple(args))
    for var, value in reversed(named + checked):
        body = Let(var, value, body, span=call.span, checked_type=call.checked_type)
    return body


def with_checked_places(function: Function) -> Function:
    """Return a function whose calls of variables compare what the types of these variables ask of
    arguments: functions of other sizes may stand behind them.
    """

    def step(_before: Expr, after: Expr) -> Expr:
        place = after.op.checked_type if isinstance(after, Call) else None
        if not isinstance(after, Call) or not isinstance(after.op, Var):
            return after
        if not isinstance(place, FuncType) or place.type_params:
            return after
        return with_checked_arguments(after, place.arg_types)

    result = rebuild(function, step)
    assert isinstance(result, Function)
    return result
