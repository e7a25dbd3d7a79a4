"""What an executor runs: a function of a module, with types for its parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import Any

import numpy as np

from relayvm.base.diagnostics import RelayError, error, quantity
from relayvm.base.dims import ANY, Dim, DimVar, symbol
from relayvm.base.dtypes import dtype_of
from relayvm.compiler.entries import without_untold
from relayvm.compiler.infer_types import infer_types
from relayvm.ir.adt import field_types
from relayvm.ir.expr import Call, Constant, Expr, Function, GlobalVar, Var
from relayvm.ir.module import Module
from relayvm.ir.types import (
    IncompleteType,
    RefType,
    ShapeArg,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeParam,
    TypeVar,
)
from relayvm.ir.visit import substitute, substitute_in_type, type_walk
from relayvm.relay.binders import with_one_binder_each
from relayvm.relay.values import ADT, ConstructorValue, RefValue


@dataclass(frozen=True, slots=True)
class Told:
    """What arguments tell: their types, and those of type parameters. Equal, an entry that takes
    ones takes the others as well.
    """

    types: tuple[Type | None, ...]
    params: tuple[tuple[TypeParam, Type | Dim], ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """A function of a module by name."""

    module: Module
    name: str

    @property
    def function(self) -> Function:
        """The function."""
        return self.module[self.name]

    @property
    def is_open(self) -> bool:
        """Whether types of parameters, or type parameters, follow only from arguments."""
        function = self.function
        polymorphic = any(isinstance(p, TypeVar) for p in function.type_params)
        return polymorphic or any(_is_open(p) for p in function.params)

    def bound(self, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return all arguments in order; raises RelayError `wrong-argument`."""
        names = [p.name for p in self.function.params]
        if len(args) > len(names):
            most = quantity(len(names), "argument")
            raise error("wrong-argument", f"`{self.name}` takes {most}, not more")
        values = dict(enumerate(args))
        for name, value in named.items():
            if name not in names:
                known = ", ".join(f"`{n}`" for n in names) or "none"
                message = f"`{self.name}` has no parameter `{name}`; it has {known}"
                raise error("wrong-argument", message)
            if names.index(name) in values:
                raise error("wrong-argument", f"`{name}` of `{self.name}` is given twice")
            values[names.index(name)] = value
        missing = [f"`{n}`" for i, n in enumerate(names) if i not in values]
        if missing:
            raise error("wrong-argument", f"{', '.join(missing)} of `{self.name}` is not given")
        return tuple(values[i] for i in range(len(names)))

    def told_by(self, args: Sequence[Any]) -> Told:
        """Return what of arguments tells the types of the entry."""
        types = tuple(argument_type(value) for value in args)
        return Told(types, tuple(_told(self.module, self.function.params, args).items()))

    def closed_over(self, by: Told) -> Entry:
        """Return the entry for the types of arguments.

        Parameters without annotation get them; a function with type parameters is called by a new
        entry that has none. Where an argument has no type of its own, the parameter stays as it is.
        Raises RelayError `polymorphic-entry` where neither arguments nor constraints tell a type
        parameter.
        """
        function, types, told = self.function, by.types, dict(by.params)
        params = tuple(
            replace(p, type_annotation=t) if t is not None and _is_open(p) else p
            for p, t in zip(function.params, types)
        )
        old_new: dict[Var, Expr] = {
            old: new for old, new in zip(function.params, params) if old is not new
        }
        typed = replace(
            function, params=params, body=substitute(function.body, old_new), checked_type=None
        )
        functions = {**self.module.functions, self.name: typed}
        module = self.module.with_functions(functions)
        if not any(isinstance(p, TypeVar) for p in function.type_params):
            return Entry(module, self.name)
        if (closed := without_untold(typed)) is not typed:
            own = next(n for n in _entry_names() if n not in functions)
            return Entry(module.with_functions({**functions, own: closed}), own).closed_over(by)
        untold = [p for p in function.type_params if isinstance(p, TypeVar) and p not in told]
        constrained = {t for c in function.type_constraints for t in type_walk(c)}
        for param in untold:
            if param not in constrained:
                raise self._untold(param)
        fresh = tuple(
            Var(p.name, t or (p.type_annotation and substitute_in_type(p.type_annotation, told)))
            for p, t in zip(params, types)
        )
        sizes = tuple(p for p in function.type_params if isinstance(p, DimVar))
        for call in _calls(GlobalVar(self.name), fresh, function.type_params, told):
            made = entry_of(module, Function(fresh, call, type_params=sizes))
            failure = _failure(made.module) if untold else None
            if failure is None:
                return made
            if not call.type_args and failure.code != "cannot-infer":
                raise failure
        raise self._untold(untold[0])

    def _untold(self, param: TypeVar) -> RelayError:
        message = f"the arguments of `@{self.name}` do not tell what `{param.name}` is"
        return error("polymorphic-entry", message, self.function.span)


# Types that stand for a parameter of which there are no values, so that a constraint holds.
_WITNESSES = tuple(
    TensorType((ANY,) * rank, dtype_of(dtype))
    for rank, dtype in ((0, "float32"), (0, "bool"), (2, "float32"), (4, "float32"))
)


def _calls(
    callee: GlobalVar,
    args: tuple[Var, ...],
    params: Sequence[TypeParam],
    told: Mapping[TypeParam, Type | Dim],
) -> Iterator[Call]:
    """Yield calls of a function of which constraints tell the other type parameters: by types of
    arguments alone, then with more and more of those others given, whatever fits.
    """
    yield Call(callee, args)
    others = [p for p in params if isinstance(p, TypeVar) and p not in told]
    for witness in _WITNESSES:
        for number in range(1, len(others) + 1):
            known = dict(told)
            known.update(dict.fromkeys(others[:number], witness))
            yield Call(callee, args, type_args=tuple(_type_arg(p, known) for p in params))


def _type_arg(param: TypeParam, known: Mapping[TypeParam, Type | Dim]) -> Type:
    if isinstance(param, DimVar):
        return ShapeArg(symbol(param))
    kind = known.get(param)
    return kind if isinstance(kind, Type) else IncompleteType()


def _failure(module: Module) -> RelayError | None:
    """Return why types of a module are not found or do not fit."""
    try:
        infer_types(module)
    except RelayError as failure:
        return failure
    return None


_MOST_PARTS = 10_000


def _told(
    module: Module, params: Sequence[Var], args: Sequence[Any]
) -> dict[TypeParam, Type | Dim]:
    """Return the types that arguments, and what is inside of them, tell for type variables."""
    told: dict[TypeParam, Type | Dim] = {}
    waiting = [(p.type_annotation, v) for p, v in zip(params, args)][::-1]
    for _ in range(_MOST_PARTS):  # references may lead back to themselves
        if not waiting:
            break
        kind, value = waiting.pop()
        if isinstance(kind, TypeVar):
            own = argument_type(value)
            if own is not None:
                told.setdefault(kind, own)
        elif kind is not None and any(isinstance(t, TypeVar) for t in type_walk(kind)):
            waiting.extend(reversed(_inside(module, kind, value)))
    return told


def _inside(module: Module, kind: Type, value: Any) -> list[tuple[Type, Any]]:
    """Return the parts of an argument with their types, as far as they tell types."""
    if isinstance(kind, RefType):
        return [(kind.value, value.value)] if isinstance(value, RefValue) else []
    if isinstance(kind, TupleType):
        return list(zip(kind.fields, value)) if isinstance(value, (ADT, tuple, list)) else []
    if isinstance(value, ConstructorValue):
        if value.constructor is None or not isinstance(kind, TypeCall):
            return []
        return list(zip(field_types(module, kind, value.constructor), value.fields))
    if isinstance(kind, TypeCall) and isinstance(value, (list, tuple)) and len(kind.args) == 1:
        return [(kind.args[0], item) for item in value]
    return []


def _is_open(param: Var) -> bool:
    return param.type_annotation is None or isinstance(param.type_annotation, IncompleteType)


def entry_of(module: Module, expr: Expr | None) -> Entry:
    """Return the entry for an expression: `main` for None, a global's own function, or a new one.

    Raises RelayError `unknown-function`.
    """
    if expr is None or isinstance(expr, GlobalVar):
        name = expr.name if isinstance(expr, GlobalVar) else "main"
        module[name]
        return Entry(module, name)
    function = with_one_binder_each(expr if isinstance(expr, Function) else Function((), expr))
    assert isinstance(function, Function)
    name = next(n for n in _entry_names() if n not in module.functions)
    return Entry(module.with_functions({**module.functions, name: function}), name)


def _entry_names() -> Iterator[str]:
    return chain(["main"], (f"main_{number}" for number in count(1)))


def argument_type(value: Any) -> Type | None:
    """Return the type of an array or a tuple of such; None for what has no type of its own."""
    if isinstance(value, Constant):
        value = value.data
    if isinstance(value, (ADT, tuple)) and not getattr(value, "tag", 0):
        fields = [argument_type(v) for v in value]
        known = tuple(f for f in fields if f is not None)
        return TupleType(known) if len(known) == len(fields) else None
    if isinstance(value, (np.ndarray, np.generic)):  # a float64 of numpy is a float, too
        return TensorType(tuple(value.shape), dtype_of(value.dtype))
    for kind, dtype in ((bool, "bool"), (float, "float32"), (int, "int32")):
        if isinstance(value, kind):
            return TensorType((), dtype_of(dtype))
    return None
