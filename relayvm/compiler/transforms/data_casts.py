"""Data with functions is made anew where it is taken as data with functions of other types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from relayvm.base.dims import Dim
from relayvm.base.dtypes import BOOL, INT32
from relayvm.base.source import Span
from relayvm.base.trampoline import Recursive, trampoline
from relayvm.compiler.transforms.instances import Extent, WithoutEnd
from relayvm.compiler.transforms.lift_generics import type_args
from relayvm.ir.equal import structural_equal, structural_hash
from relayvm.ir.expr import (
    Call,
    Clause,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Match,
    PatternConstructor,
    PatternVar,
    Var,
)
from relayvm.ir.intrinsics import INTRINSICS, is_array
from relayvm.ir.module import Module
from relayvm.ir.types import (
    FuncType,
    ShapeArg,
    Type,
    TypeCall,
    TypeParam,
    scalar_type,
)
from relayvm.ir.visit import free_type_vars, substitute_in_type, with_own_params
from relayvm.ops import OPS

Cast = Callable[[Expr, Type, Type], Recursive[Expr]]


@dataclass(frozen=True, slots=True)
class _Made:
    """A function that gives data of one type for data of another."""

    name: str
    kind: FuncType
    # How many of those that needed it are of the same data type.
    depth: int


class DataCasts:
    """The functions that give data of one type for data of another, which holds less general
    functions. Such types differ where values are only read, so that nobody can tell a copy.
    """

    def __init__(self, module: Module, names: set[str], cast: Cast) -> None:
        self.module = module
        self.names = names
        self.cast = cast
        self.extent = Extent()
        self._made: dict[int, list[_Made]] = {}
        self._waiting: list[tuple[_Made, Span | None]] = []
        self._current: _Made | None = None

    def call(self, expr: Expr, actual: TypeCall, wanted: TypeCall) -> Expr:
        """Return the call that makes data of the type that is wanted; raises NotClosed."""
        try:
            self.extent.check((actual, wanted), span=expr.span)
        except WithoutEnd:
            # A type that is met again inside of itself with other arguments grows for ever.
            if self._depth(actual):
                raise WithoutEnd(actual.func.name, expr.span) from None
            raise
        params = tuple(free_type_vars(FuncType((actual,), wanted)))
        kind = FuncType((actual,), wanted, params)
        known = self._made.setdefault(structural_hash(kind), [])
        found = next((m for m in known if structural_equal(m.kind, kind)), None)
        if found is None:
            found = self._new(kind, actual, expr.span)
            known.append(found)
        args: tuple[Expr, ...] = (expr,)
        if is_array(self.module.types.get(actual.func.name)):
            length = _read("array.length", (expr,), actual, scalar_type(INT32))
            made = _read("array.new", (length,), wanted, wanted)
            args = (expr, made, _number(0))
        callee = GlobalVar(found.name, span=expr.span)
        given = type_args(params)
        return Call(callee, args, type_args=given, span=expr.span, checked_type=wanted)

    def finished(self) -> Iterator[tuple[str, Function]]:
        """Yield the functions that calls need, by name."""
        while self._waiting:
            made, span = self._waiting.pop()
            self._current = made
            yield made.name, self._function(made, span)
        self._current = None

    def _depth(self, actual: TypeCall) -> int:
        depth = 0
        above = self._current
        if above is not None:
            (outer,) = above.kind.arg_types
            assert isinstance(outer, TypeCall)
            depth = above.depth + (outer.func == actual.func)
        return depth

    def _new(self, kind: FuncType, actual: TypeCall, span: Span | None) -> _Made:
        name = stem = f"as_{actual.func.name}"
        while name in self.names:
            name = f"{stem}{len(self.names)}_"
        self.names.add(name)
        made = _Made(name, kind, self._depth(actual))
        self._waiting.append((made, span))
        return made

    def _function(self, made: _Made, span: Span | None) -> Function:
        own = with_own_params(made.kind)
        (actual,), wanted, params = own.arg_types, own.ret_type, own.type_params
        assert isinstance(actual, TypeCall) and isinstance(wanted, TypeCall)
        whole = Var("data", actual, span=span, checked_type=actual)
        if is_array(self.module.types.get(actual.func.name)):
            values, body = self._items(made, whole, wanted, params)
        else:
            values, body = (whole,), self._fields(whole, actual, wanted)
        takes = tuple(v.checked_type for v in values if v.checked_type)
        kind, constraints = replace(own, arg_types=takes), own.type_constraints
        return Function(
            values,
            body,
            wanted,
            params,
            type_constraints=constraints,
            span=span,
            checked_type=kind,
        )

    def _fields(self, whole: Var, actual: TypeCall, wanted: TypeCall) -> Expr:
        """Return a match that makes each constructor again."""
        data = self.module.types[actual.func.name]
        clauses: list[Clause] = []
        for constructor in data.constructors:
            held: list[Var] = []
            fields: list[Expr] = []
            for number, type_ in enumerate(constructor.inputs):
                own = substitute_in_type(type_, _bound(data.type_params, actual))
                kind = substitute_in_type(type_, _bound(data.type_params, wanted))
                var = Var(f"x{number}", own, span=whole.span, checked_type=own)
                held.append(var)
                fields.append(trampoline(self.cast(var, own, kind)))
            pattern = PatternConstructor(constructor, tuple(map(PatternVar, held)))
            clauses.append(Clause(pattern, _rebuilt(constructor, fields, wanted)))
        return Match(whole, tuple(clauses), span=whole.span, checked_type=wanted)

    def _items(
        self, made: _Made, whole: Var, wanted: TypeCall, params: tuple[TypeParam, ...]
    ) -> tuple[tuple[Var, ...], Expr]:
        """Return the parameters and the body of a loop over the items of an array."""
        actual, number = whole.checked_type, scalar_type(INT32)
        assert isinstance(actual, TypeCall)
        new = Var("made", wanted, span=whole.span, checked_type=wanted)
        place = Var("i", number, span=whole.span, checked_type=number)
        item = _read("array.get", (whole, place), actual, actual.args[0])
        own = trampoline(self.cast(item, actual.args[0], wanted.args[0]))
        pushed = _read("array.push", (new, own), wanted, wanted)
        following = Call(OPS["add"], (place, _number(1)), checked_type=number)
        callee = GlobalVar(made.name, span=whole.span)
        again = Call(
            callee, (whole, pushed, following), type_args=type_args(params), checked_type=wanted
        )
        length = _read("array.length", (whole,), actual, number)
        more = Call(OPS["less"], (place, length), checked_type=scalar_type(BOOL))
        return (whole, new, place), If(more, again, new, checked_type=wanted)


def _rebuilt(constructor: Constructor, fields: list[Expr], kind: TypeCall) -> Expr:
    return Call(constructor, tuple(fields), type_args=kind.args, checked_type=kind)


def _read(name: str, args: tuple[Expr, ...], array: TypeCall, kind: Type) -> Call:
    span = args[0].span
    return Call(INTRINSICS[name], args, type_args=array.args, span=span, checked_type=kind)


def _number(value: int) -> Constant:
    return Constant(np.asarray(value, np.int32), checked_type=scalar_type(INT32))


def _bound(params: tuple[TypeParam, ...], kind: TypeCall) -> dict[TypeParam, Type | Dim]:
    return {p: a.dim if isinstance(a, ShapeArg) else a for p, a in zip(params, kind.args)}
