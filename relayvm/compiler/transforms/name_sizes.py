"""Names for the sizes that parameters of global functions leave open, so that types tell which are
equal and arithmetic on them can be written in types and attributes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from relayvm.base.diagnostics import RelayError
from relayvm.base.dims import ANY, AnyDim, Dim, DimVar, symbol
from relayvm.compiler.analysis.scopes import is_primitive
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.transforms.declared_sizes import promises_more
from relayvm.ir.expr import Attrs, Call, Expr, Function, GlobalVar, Let, Match, Var
from relayvm.ir.module import Module
from relayvm.ir.types import TensorType, TupleType, Type, TypeParam
from relayvm.ir.visit import (
    binders,
    children,
    free_type_vars,
    post_order,
    rebuild,
    substitute_in_type,
)

# The attribute of a function that lists the names which the program did not write.
UNNAMED = "unnamed_sizes"
# Tuples of more parts, which may be the same ones again and again, stay as they are.
MOST_PARTS = 256


def name_sizes(module: Module) -> Module:
    """Give each `?` of a parameter a symbol.

    `def @f(%x: Tensor[(?, 4), float32]) { .. }` ->
    `def @f[x_d0](%x: Tensor[(x_d0, 4), float32]) { .. }`. Functions that are values keep their
    types, as do those whose calls have type arguments. Types of local names are found anew; where
    an operator could not take what so is known, which may be in a branch that never runs, the
    function keeps them, or all of its own.
    """
    chosen = {n: f for n, f in module.functions.items() if _is_open(f)}
    if not chosen:
        return module
    for name in _kept(module):
        chosen.pop(name, None)
    named = {name: _named(function) for name, function in chosen.items()}
    found = _inferred(module, named)
    if found is not None:
        return found
    fitting = {name: new for name, f in chosen.items() if (new := _fitting(module, name, f))}
    return _inferred(module, fitting) or module


def _fitting(module: Module, name: str, function: Function) -> Function | None:
    """Return the function with as many names as it can have; None if it can have none."""
    for new in (_named(function), _named(function, keeps_open=True)):
        if _inferred(module, {name: new}) is not None:
            return new
    return None


def _inferred(module: Module, new: Mapping[str, Function]) -> Module | None:
    """Return the typed module with new functions; None where types do not fit."""
    try:
        return infer_types(module.with_functions({**module.functions, **new}), late=True)
    except RelayError:
        return None


def with_open_sizes(function: Function, type_: Type) -> Type:
    """Return a type of a function as the program wrote it."""
    names = function.attrs.get(UNNAMED, ())
    assert isinstance(names, tuple)
    open_: dict[TypeParam, Type | Dim] = {
        p: ANY for p in function.type_params if isinstance(p, DimVar) and p.name in names
    }
    return substitute_in_type(type_, open_)


def _is_open(function: Function) -> bool:
    types = [_type_of(p) for p in function.params]
    return not is_primitive(function) and any(_has_open_size(t) for t in types)


def _has_open_size(type_: Type | None) -> bool:
    """Tell whether a tensor, or a tuple of not too many parts, leaves a size open."""
    waiting, is_open, parts = [type_], False, 0
    while waiting:
        part = waiting.pop()
        parts += 1
        if parts > MOST_PARTS:
            return False
        if isinstance(part, TupleType):
            waiting.extend(part.fields)
        elif isinstance(part, TensorType):
            is_open = is_open or any(isinstance(d, AnyDim) for d in part.shape)
    return is_open


def _kept(module: Module) -> set[str]:
    """Return the functions that are values, or are called at type arguments."""
    kept: set[str] = set()
    for function in module.functions.values():
        for node in post_order(function):
            used = [c.name for c in children(node) if isinstance(c, GlobalVar)]
            callee = node.op if isinstance(node, Call) else None
            if isinstance(callee, GlobalVar) and not module[callee.name].type_params:
                used.remove(callee.name)
            kept.update(used)
    return kept


def _named(function: Function, keeps_open: bool = False) -> Function:
    fresh: list[DimVar] = []
    # The attribute tells them by their names, which a text keeps only where nothing else has them.
    taken = {p.name for n in post_order(function) if isinstance(n, Function) for p in n.type_params}
    replaced: dict[int, Expr] = {}
    params: list[Var] = []
    for param in function.params:
        kind = _with_names(_type_of(param), param.name, fresh, taken)
        new = param if kind is _type_of(param) else Var(param.name, kind, span=param.span)
        replaced[id(param)] = new
        params.append(new)
    taken_out = {id(v) for n in post_order(function) if isinstance(n, Match) for v in binders(n)}
    for node in post_order(function.body):
        # What was found for local names is found anew; a reference may leave a size open.
        if isinstance(node, Let) and not keeps_open and _is_found_anew(node, taken_out):
            replaced[id(node.var)] = Var(node.var.name, None, span=node.var.span)

    def step(before: Expr, after: Expr) -> Expr:
        if isinstance(after, Let) and isinstance(before, Let) and id(before.var) in replaced:
            var = replaced[id(before.var)]
            assert isinstance(var, Var)
            return replace(after, var=var)
        return replaced.get(id(before), after)

    body = rebuild(function.body, step)
    unnamed = tuple(variable.name for variable in fresh)
    return replace(
        function,
        params=tuple(params),
        body=body,
        type_params=(*function.type_params, *fresh),
        attrs=Attrs(function.attrs, **{UNNAMED: unnamed}),
        checked_type=None,
    )


def _is_found_anew(let: Let, taken_out: set[int]) -> bool:
    """Return True for an open name, but where it has sizes to be compared, or hides one that data
    may not have.
    """
    if not _has_open_size(let.var.type_annotation) or promises_more(let.var, let.value):
        return False
    given = let.value.checked_type
    hides = given is not None and let.var.type_annotation != given and free_type_vars(given)
    return not (hides and id(let.value) in taken_out)


def _type_of(param: Var) -> Type | None:
    return param.type_annotation or param.checked_type


def _with_names(type_: Type | None, name: str, fresh: list[DimVar], taken: set[str]) -> Type | None:
    if not _has_open_size(type_):
        return type_
    if isinstance(type_, TupleType):
        fields = enumerate(type_.fields)
        parts = [_with_names(field, f"{name}_{i}", fresh, taken) for i, field in fields]
        return TupleType(tuple(part for part in parts if part is not None))
    assert isinstance(type_, TensorType)
    shape: list[Dim] = []
    for axis, dim in enumerate(type_.shape):
        if isinstance(dim, AnyDim):
            own = f"{name}_d{axis}"  # a number at the end is the printer's
            while own in taken:
                own += "_"
            taken.add(own)
            fresh.append(DimVar(own))
            dim = symbol(fresh[-1])
        shape.append(dim)
    return TensorType(tuple(shape), type_.dtype)
