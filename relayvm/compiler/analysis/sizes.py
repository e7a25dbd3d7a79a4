"""Which symbolic sizes a piece of code needs at run time, and which parameters supply them.

Code that moves out of the function that binds a size takes along a parameter that supplies it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from relayvm.base.dims import ANY, Dim, DimVar, dim_variables, linear_dim
from relayvm.compiler.analysis.scopes import is_primitive
from relayvm.compiler.infer_types import needs_check
from relayvm.ir.expr import Call, Expr, Function, Let, RefWrite, Var
from relayvm.ir.types import RefType, ShapeArg, TensorType, TupleType, Type, TypeParam
from relayvm.ir.visit import attr_variables, post_order, substitute_in_type


def axes_of(kind: Type | None) -> Iterator[tuple[tuple[int, ...], int, Dim]]:
    """Yield the axes of all tensors in a type: the path through tuples, the axis, the dim."""
    pending: list[tuple[tuple[int, ...], Type | None]] = [((), kind)]
    while pending:
        path, current = pending.pop()
        if isinstance(current, TensorType):
            for axis, dim in enumerate(current.shape):
                yield path, axis, dim
        elif isinstance(current, TupleType):
            parts = [((*path, i), t) for i, t in enumerate(current.fields)]
            pending.extend(reversed(parts))


def supplied_sizes(kind: Type | None) -> set[DimVar]:
    """Return the variables that an axis in a type tells, such as `n` and `n*2 + 1`."""
    found = map(linear_dim, _dims_of(kind))
    return {linear[0] for linear in found if linear is not None}


def size_suppliers(code: Expr, has: Iterable[Var], scope: Sequence[Var]) -> list[Var]:
    """Return the variables of `scope` that `code` must take along beside those that it `has`."""
    missing = needed_sizes(code)
    for var in has:
        missing -= supplied_sizes(_type(var))
    found: list[Var] = []
    for var in scope:
        if not missing:
            break
        supplied = missing & supplied_sizes(_type(var))
        if supplied:
            found.append(var)
            missing -= supplied
    return found


def needed_sizes(code: Expr) -> set[DimVar]:
    """Return the sizes that code computes with or compares against, but does not bind."""
    used: set[TypeParam] = set()
    bound: set[TypeParam] = set()
    for node in post_order(code):
        match node:
            case Call():
                for value in node.attrs.values():
                    used.update(attr_variables(value))
            case Function() if not is_primitive(node):
                bound.update(node.type_params)
                for param in node.params:
                    used.update(_compared(None, _type(param)))
                used.update(_compared(node.body.checked_type, node.ret_type))
            case Let():
                used.update(_compared(node.value.checked_type, _type(node.var)))
            case RefWrite():
                held = node.ref.checked_type
                inner = held.value if isinstance(held, RefType) else None
                used.update(_compared(node.value.checked_type, inner))
            case _:
                pass
    return {v for v in used - bound if isinstance(v, DimVar)}


def instance_types(
    types: Sequence[Type], params: Sequence[TypeParam], given: Sequence[Type]
) -> list[Type]:
    """Return parameter types as one call means them, `given` its type arguments; what a size
    without argument stands for is the callee's to know.
    """
    values: dict[TypeParam, Type | Dim] = {p: ANY for p in params if isinstance(p, DimVar)}
    if len(params) == len(given):
        values.update((p, g.dim if isinstance(g, ShapeArg) else g) for p, g in zip(params, given))
    return [substitute_in_type(t, values) for t in types]


def _compared(given: Type | None, wanted: Type | None) -> Iterator[TypeParam]:
    """Yield the variables in the axes of `wanted`, if a value of type `given` must be compared."""
    if wanted is None or (given is not None and not needs_check(given, wanted)):
        return
    if isinstance(wanted, (TensorType, TupleType)):
        for dim in _dims_of(wanted):
            yield from dim_variables(dim)


def _dims_of(kind: Type | None) -> Iterator[Dim]:
    """Yield the sizes of all tensors in a type, those of a shared part once."""
    pending, seen = [kind], set()
    while pending:
        current = pending.pop()
        if isinstance(current, TensorType):
            yield from current.shape
        elif isinstance(current, TupleType) and id(current) not in seen:
            seen.add(id(current))
            pending.extend(reversed(current.fields))


def _type(var: Var) -> Type | None:
    return var.checked_type if var.checked_type is not None else var.type_annotation
