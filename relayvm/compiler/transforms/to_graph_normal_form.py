"""Graph normal form: lets go, and their values are shared nodes; where that would change what
happens they stay.
"""

from __future__ import annotations

from collections.abc import Callable

from relayvm.compiler.analysis.purity import Effect, Purity
from relayvm.compiler.analysis.scopes import Scopes, is_atomic, same_scope_children, scope_bodies
from relayvm.compiler.analysis.traps import is_inert
from relayvm.compiler.transforms.generic_places import GeneralPlaces
from relayvm.ir.expr import Expr, Function, Let, Var
from relayvm.ir.module import Module
from relayvm.ir.scope import Scope
from relayvm.ir.visit import post_order, with_parts


def to_graph_normal_form(module: Module) -> Module:
    """Drop lets: `let %a = exp(%x); add(%a, %a)` -> `%0 = exp(%x); add(%0, %0)`.

    A let stays if its value would be computed more often (the variable is used in a function that
    the let stands outside of), if the function it binds is recursive, if its annotation promises
    more than the type of its value or says how general functions in it are, and, in a program that
    writes references, if its value can have an effect, trap or run for ever. An unused let goes
    unless it writes a reference.
    """
    purity = Purity(module)
    functions = {n: drop_lets(f, purity, lambda _: True) for n, f in module.functions.items()}
    return module.with_functions(functions)


def drop_lets(function: Function, purity: Purity, wanted: Callable[[int], bool]) -> Function:
    """Return a function without those of its lets that may go and whose number of uses is
    `wanted`.
    """
    dropped = _droppable(function, purity, wanted)
    if not dropped:
        return function
    done: dict[int, Expr] = {}
    for node in post_order(function):
        if isinstance(node, Var) and node in dropped:
            done[id(node)] = done[id(dropped[node])]
        elif isinstance(node, Let) and node.var in dropped:
            done[id(node)] = done[id(node.body)]
        else:
            done[id(node)] = with_parts(node, done)
    result = done[id(function)]
    assert isinstance(result, Function)
    return result


def _droppable(
    function: Function, purity: Purity, wanted: Callable[[int], bool]
) -> dict[Var, Expr]:
    scopes = Scopes(function)
    places = _places_of_use(scopes)
    writes = bool(purity.anything & Effect.WRITE)
    found: dict[Var, Expr] = {}
    is_general = GeneralPlaces()
    for node in scopes.order:
        if not isinstance(node, Let) or _promises_more(node, is_general):
            continue
        used = places.get(node.var, [])
        if not wanted(len(used)):
            continue
        if not used:
            keep = not purity.is_removable(node.value)
        elif is_atomic(node.value):
            keep = False
        elif isinstance(node.value, Function):
            inside = scopes.opened(node.value)[0]
            keep = any(inside.encloses(place) for place in used)
        else:
            keep = _crosses_function(scopes.of(node), used)
            keep = keep or (writes and not is_inert(node.value))
        if not keep:
            found[node.var] = node.value
    return found


def _places_of_use(scopes: Scopes) -> dict[Var, list[Scope]]:
    places: dict[Var, list[Scope]] = {}
    for node in scopes.order:
        own = scopes.of(node)
        uses = [(child, own) for child in same_scope_children(node)]
        uses += zip(scope_bodies(node), scopes.opened(node))
        for child, scope in uses:
            if isinstance(child, Var):
                places.setdefault(child, []).append(scope)
    return places


def _promises_more(let: Let, is_general: GeneralPlaces) -> bool:
    """Return True if a let declares what its value would not be without it."""
    annotation = let.var.type_annotation
    if annotation is None:
        return False
    return annotation != let.value.checked_type or is_general(let.value)


def _crosses_function(outer: Scope, used: list[Scope]) -> bool:
    """Return True if the least scope around the uses lies in a function inside of `outer`."""
    scope = used[0]
    for other in used[1:]:
        scope = scope.meet(other)
    while scope is not outer and scope.depth > outer.depth:
        if isinstance(scope.owner, Function):
            return True
        scope = scope.parent
    return False
