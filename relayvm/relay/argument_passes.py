"""Passes over what operators take: long tuples in parts, weights the other way round."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TypeGuard

from relayvm.base.diagnostics import error
from relayvm.ir.expr import Call, Expr, Function, Op, Tuple, Var
from relayvm.ir.module import Module
from relayvm.ir.types import TensorType
from relayvm.ir.visit import free_vars, rewrite
from relayvm.relay.op import annotation


def split_args(module: Module, *, max_function_args: int) -> Module:
    """Return the module with tensors joined in parts: no `concatenate` takes more than so many, and
    parts are not fused. 0 is any number.
    """
    if type(max_function_args) is not int or max_function_args < 0 or max_function_args == 1:
        message = f"`max_function_args` is 0 or at least 2, not `{max_function_args!r}`"
        raise error("bad-option", message)

    def split(node: Expr) -> Expr:
        if not _calls(node, "concatenate") or not isinstance(node.args[0], Tuple):
            return node
        fields, most = node.args[0].fields, max_function_args
        while len(fields) > most:
            chunks = [fields[i : i + most] for i in range(0, len(fields), most)]
            fields = tuple(_part(node, chunk) for chunk in chunks)
        return node if fields is node.args[0].fields else _with(node, (Tuple(fields),))

    return _mapped(module, split) if max_function_args else module


def _part(call: Call, fields: tuple[Expr, ...]) -> Expr:
    if len(fields) == 1:
        return fields[0]
    return annotation.stop_fusion(_with(call, (Tuple(fields),)))


def simplify_fc_transpose(module: Module, *, target_weight_name: Collection[str]) -> Module:
    """Return the module in which weights of these names are given the way that `nn.dense` takes
    them, as parameters `<name>.T`, where it took them transposed.
    """
    names = {str(name) for name in target_weight_name}
    functions = {name: _simplified(f, names) for name, f in module.functions.items()}
    return module.with_functions(functions)


def _simplified(function: Function, names: Collection[str]) -> Function:
    turned: dict[Var, Var] = {}

    def simplify(node: Expr) -> Expr:
        if not _calls(node, "nn.dense"):
            return node
        data, weight = node.args
        if not _calls(weight, "transpose") or not _turns(weight):
            return node
        found = weight.args[0]
        if not isinstance(found, Var) or found.name not in names:
            return node
        if found not in turned:
            turned[found] = Var(f"{found.name}.T", _turned_type(found))
        return _with(node, (data, turned[found]))

    body = rewrite(function.body, simplify)
    if not turned:
        return function
    used = set(free_vars(body))
    params: list[Var] = []
    for param in function.params:
        if param not in turned or param in used:
            params.append(param)
        if param in turned:
            params.append(turned[param])
    return replace(function, params=tuple(params), body=body, checked_type=None)


def _calls(node: Expr, name: str) -> TypeGuard[Call]:
    return isinstance(node, Call) and isinstance(node.op, Op) and node.op.name == name


def _turns(call: Call) -> bool:
    axes = call.attrs.get("axes")
    return axes is None or (isinstance(axes, (list, tuple)) and list(axes) in ([1, 0], [-1, -2]))


def _turned_type(var: Var) -> TensorType | None:
    kind = var.checked_type or var.type_annotation
    if not isinstance(kind, TensorType):
        return None
    return replace(kind, shape=tuple(reversed(kind.shape)))


def _with(call: Call, args: tuple[Expr, ...]) -> Call:
    return replace(call, args=args, checked_type=None)


def _mapped(module: Module, change: Callable[[Expr], Expr]) -> Module:
    functions = {}
    for name, function in module.functions.items():
        result = rewrite(function, change)
        assert isinstance(result, Function)
        functions[name] = result
    return module.with_functions(functions)
