"""Inlining: small or once-called global functions, let-bound functions called once, and names of
atoms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from relayvm.base.dims import AnyDim
from relayvm.base.source import Span
from relayvm.compiler.analysis.call_graph import call_graph, components, recursive_names
from relayvm.compiler.analysis.scopes import (
    is_atomic,
    is_primitive,
)
from relayvm.compiler.entries import entry_names
from relayvm.compiler.infer_types import needs_check
from relayvm.compiler.transforms.argument_checks import with_checked_arguments
from relayvm.compiler.transforms.copies import Copier, TypeMap
from relayvm.compiler.transforms.held_types import InstanceCopier
from relayvm.ir.expr import Attrs, Call, Constructor, Expr, Function, GlobalVar, Let, Op, Var
from relayvm.ir.module import Module
from relayvm.ir.types import FuncType, ShapeArg
from relayvm.ir.visit import children, post_order, rebuild, with_children

LARGEST_SMALL_FUNCTION = 10
MOST_ROUNDS = 3


def inline(module: Module, marked_only: bool = False) -> Module:
    """Put bodies in the place of calls: `@f(%a)` -> `let %x = %a; body of @f`.

    Global functions are inlined where they are not recursive and are marked `Inline=1`, have at
    most ten nodes, or are called once and are no entry; with `marked_only` nothing but what is
    marked, also where it is a value, and marked functions that nobody mentions any more are
    dropped. Requires TYPED.
    """
    graph = call_graph(module)
    recursive = recursive_names(graph)
    called_once = set() if marked_only else _called_once(module) - set(entry_names(module))
    functions = dict(module.functions)
    inlined: dict[str, Function] = {}
    for group in components(graph):
        for name in group:
            function = functions[name]
            if marked_only:
                function = _expand_marked(function, inlined, module.library)
            else:
                function = _inline_into(function, inlined, module.library)
            if function is not functions[name] and not marked_only:
                function = _inline_names(function, module.library)
            functions[name] = function
            if name in recursive or is_primitive(function):
                continue
            small = name in called_once
            if not marked_only:
                small = small or _size(function) <= LARGEST_SMALL_FUNCTION
            if function.attrs.get("Inline") or small:
                inlined[name] = function
    if marked_only:
        used = _mentioned(functions)
        gone = {name for name in _mentioned(module.functions) - used if name in inlined}
        functions = {name: f for name, f in functions.items() if name not in gone}
    return module.with_functions(functions)


def _mentioned(functions: Mapping[str, Function]) -> set[str]:
    nodes = (node for function in functions.values() for node in post_order(function))
    return {node.name for node in nodes if isinstance(node, GlobalVar)}


def _inline_names(function: Function, library: frozenset[str]) -> Function:
    """Inline once more: parameters of inlined functions are lets now, many of them names of atoms,
    behind which there are functions that are called once.
    """
    for _ in range(MOST_ROUNDS):
        before, function = function, _inline_into(function, {}, library)
        if function is before:
            break
    return function


def _expand_marked(
    function: Function, inlined: dict[str, Function], library: frozenset[str]
) -> Function:
    def step(_before: Expr, after: Expr) -> Expr:
        if isinstance(after, Call) and isinstance(after.op, GlobalVar):
            callee = inlined.get(after.op.name)
            if callee is not None:
                after = _expand_global(after, callee, after.op.name in library)
        new = tuple(map(value, parts)) if (parts := children(after)) else ()
        return with_children(after, new) if any(a is not b for a, b in zip(new, parts)) else after

    def value(part: Expr) -> Expr:
        callee = inlined.get(part.name) if isinstance(part, GlobalVar) else None
        if callee is None or callee.type_params:
            return part
        attrs = Attrs({n: v for n, v in callee.attrs.items() if n != "Inline"})
        return Copier(TypeMap()).copy(replace(callee, attrs=attrs))

    result = rebuild(function, step)
    assert isinstance(result, Function)
    return result


def _called_once(module: Module) -> set[str]:
    """Return the functions with one call and no other mention."""
    calls: dict[str, int] = {}
    mentions: dict[str, int] = {}
    for function in module.functions.values():
        for node in post_order(function):
            for part in children(node):
                if isinstance(part, GlobalVar):
                    mentions[part.name] = mentions.get(part.name, 0) + 1
            if isinstance(node, Call) and isinstance(node.op, GlobalVar):
                calls[node.op.name] = calls.get(node.op.name, 0) + 1
    return {name for name, count in calls.items() if count == 1 and mentions[name] == 1}


def _size(function: Function) -> int:
    return sum(not is_atomic(node) for node in post_order(function.body))


def _inline_into(
    function: Function, inlined: dict[str, Function], library: frozenset[str]
) -> Function:
    once = _local_functions_called_once(function)
    aliases: dict[int, Expr] = {}

    def step(before: Expr, after: Expr) -> Expr:
        match after:
            case Var():
                return aliases.get(id(after), after)
            case Let():
                assert isinstance(before, Let)
                gone = id(after.var) in aliases or id(after.var) in once
                return after.body if gone else after
            case Call(op=GlobalVar()):
                assert isinstance(after.op, GlobalVar)
                callee = inlined.get(after.op.name)
                if callee is None:
                    return after
                return _expand_global(after, callee, after.op.name in library)
            case Call(op=Var()):
                callee = bodies.get(id(after.op))
                return after if callee is None else _bind_at_place(callee, after, named)
            case Call(op=Function()):
                assert isinstance(after.op, Function)
                single = isinstance(before, Call) and uses.get(id(before.op)) == 1
                plain = single and not is_primitive(after.op) and not after.op.type_params
                return _bind(after.op, after) if plain else after
        if id(before) in values:
            for var in values[id(before)]:
                if id(var) in once and isinstance(after, Function):
                    bodies[id(var)] = after
        return after

    values: dict[int, list[Var]] = {}
    bodies: dict[int, Function] = {}
    uses: dict[int, int] = {}
    named: dict[int, Expr] = {}
    for node in post_order(function):
        for part in children(node):
            uses[id(part)] = uses.get(id(part), 0) + 1
        if isinstance(node, Let):
            values.setdefault(id(node.value), []).append(node.var)
            if isinstance(node.value, Var):
                named[id(node.var)] = node.value
            if _is_alias(node):
                aliases[id(node.var)] = node.value
    for key, value in aliases.items():
        while id(value) in aliases:
            value = aliases[id(value)]
        aliases[key] = value
    result = rebuild(function, step)
    assert isinstance(result, Function)
    return result


def _is_alias(let: Let) -> bool:
    """Return True if a let only gives an atom another name (and no other type)."""
    value = let.value
    if not is_atomic(value):
        return False
    return let.var.type_annotation in (None, value.checked_type)


def _local_functions_called_once(function: Function) -> set[int]:
    """Return the let variables whose function is called in one place and stands nowhere else, be it
    by name or as a shared node.
    """
    mentions: dict[int, int] = {}
    calls: dict[int, int] = {}
    bound: dict[int, Function] = {}
    places: dict[int, int] = {}
    called_at: dict[int, int] = {}
    for place, node in enumerate(post_order(function)):
        if isinstance(node, Function):
            places[id(node)] = place
        for part in children(node):
            if isinstance(part, (Var, Function)):
                mentions[id(part)] = mentions.get(id(part), 0) + 1
        if isinstance(node, Call) and isinstance(node.op, Var):
            calls[id(node.op)] = calls.get(id(node.op), 0) + 1
            called_at[id(node.op)] = place
        if isinstance(node, Let) and isinstance(node.value, Function):
            bound[id(node.var)] = node.value
    return {
        var
        for var, value in bound.items()
        if calls.get(var) == 1
        and mentions.get(var) == 1
        and mentions[id(value)] == 1
        and not is_primitive(value)
        and not value.type_params
        # A call that comes before its function in this order stands in it: it is recursive.
        and called_at[var] > places[id(value)]
    }


def _expand_global(call: Call, callee: Function, in_library: bool) -> Expr:
    """Return a fresh copy of the body with the arguments bound; the call if types forbid it."""
    if callee.type_params and len(call.type_args) != len(callee.type_params):
        return call
    if any(isinstance(t, ShapeArg) and isinstance(t.dim, AnyDim) for t in call.type_args):
        # The call compares the real sizes that the variable stands for; a `?` would not.
        return call
    types = TypeMap()
    types.bind(callee.type_params, call.type_args)
    copy = InstanceCopier(types).copy(replace(callee, type_params=(), type_constraints=()))
    assert isinstance(copy, Function)
    return _bind(_placed_at(copy, call.span) if in_library else copy, call)


def _placed_at(function: Function, span: Span | None) -> Function:
    """Return a library function with the place of its call: the line that users know."""

    def move(_before: Expr, after: Expr) -> Expr:
        return after if isinstance(after, (Var, Op, Constructor)) else replace(after, span=span)

    return function if span is None else replace(function, body=rebuild(function.body, move))


def _bind_at_place(function: Function, call: Call, named: Mapping[int, Expr]) -> Expr:
    """Bind the arguments of a call of a variable, whose type may ask more of them than its function
    does. A name of another variable counts as that: it may only hide from the function what it has.
    """
    place = call.op.checked_type
    lets: list[Let] = []
    checked: Expr = call
    if isinstance(place, FuncType):
        given = [named.get(id(arg), arg).checked_type for arg in call.args]
        asked = [
            wanted if source is None or needs_check(source, wanted) else arg.checked_type or wanted
            for arg, source, wanted in zip(call.args, given, place.arg_types)
        ]
        checked = with_checked_arguments(call, asked)
    while isinstance(checked, Let):
        lets.append(checked)
        checked = checked.body
    assert isinstance(checked, Call)
    body = _bind(function, checked)
    for let in reversed(lets):
        body = replace(let, body=body, checked_type=body.checked_type)
    return body


def _bind(function: Function, call: Call) -> Expr:
    """Return `let param = arg; ..; body` with what a declared result type promises."""
    body = function.body
    if function.ret_type is not None and function.ret_type != body.checked_type:
        result = Var("result", function.ret_type, checked_type=function.ret_type)
        body = Let(result, body, result, span=call.span, checked_type=function.ret_type)
    for param, arg in reversed(list(zip(function.params, call.args))):
        body = Let(param, arg, body, span=call.span, checked_type=body.checked_type)
    return body
