"""Calls of operators in the forms that functions of the user give them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from relayvm.base.diagnostics import error
from relayvm.ir.expr import Attrs, Call, Expr, Function
from relayvm.ir.module import Module
from relayvm.ir.types import Type
from relayvm.ir.visit import rebuild
from relayvm.ops.operator import Operator

# `(attributes, operands, their types and that of the result) -> what takes the place, or None`.
Hook = Callable[[Attrs, Sequence[Expr], Sequence[Type]], "Expr | None"]


def legalize(module: Module, hooks: Mapping[str, Hook]) -> Module:
    """Replace calls of operators by what the function of the operator gives; None leaves a call.

    Operands are replaced first; what a function gives is not replaced again. It should have the
    type of the call: types must be inferred anew. Raises RelayError `wrong-argument` for what is no
    expression.
    """

    def transform(before: Expr, after: Expr) -> Expr:
        if not isinstance(after, Call) or not isinstance(after.op, Operator):
            return after
        hook = hooks.get(after.op.name)
        if hook is None:
            return after
        assert isinstance(before, Call)
        types = [arg.checked_type for arg in before.args] + [before.checked_type]
        attrs = Attrs(after.op.complete_attrs(after.attrs))
        result = hook(attrs, list(after.args), [t for t in types if t is not None])
        if result is None:
            return after
        if not isinstance(result, Expr):
            message = f"the legal form of `{after.op.name}` is {result!r:.60}, no expression"
            raise error("wrong-argument", message)
        return result

    functions = {}
    for name, function in module.functions.items():
        new = rebuild(function, transform)
        assert isinstance(new, Function)
        functions[name] = new
    return module.with_functions(functions)
