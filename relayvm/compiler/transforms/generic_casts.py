"""Polymorphic values become functions of the types that their places take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from relayvm.base.dims import Dim, DimVar, symbol
from relayvm.base.trampoline import Recursive, trampoline
from relayvm.compiler.transforms.copies import Copier, TypeMap
from relayvm.compiler.transforms.data_casts import DataCasts
from relayvm.compiler.transforms.generic_places import GenericTypes, Places
from relayvm.compiler.transforms.instances import (
    ErasedTypes,
    NotClosed,
    match_types,
    type_params_only,
)
from relayvm.ir.equal import structural_equal
from relayvm.ir.expr import Call, Expr, Function, Let, Tuple, TupleGetItem, Var
from relayvm.ir.intrinsics import INTRINSICS
from relayvm.ir.module import Module
from relayvm.ir.types import UNIT, FuncType, TupleType, Type, TypeCall, TypeParam, TypeVar
from relayvm.ir.visit import (
    LEAVES,
    binders,
    children,
    node_types,
    post_order,
    rebuild,
    substitute_in_type,
    type_walk,
    with_children,
    with_own_params,
)

# What gives one item of an array, or nothing of them.
_READS = (INTRINSICS["array.get"], INTRINSICS["array.length"])


class Casts:
    """Adds functions of other types where polymorphic functions are taken at these."""

    def __init__(self, module: Module, names: set[str]) -> None:
        self.places = Places(module)
        self.generic = GenericTypes()
        self.erase = ErasedTypes()
        self.data = DataCasts(module, names, self.cast)

    def run(self, function: Function) -> Function:
        """Return a typed function in which every place gets values of just the type it takes.

        `let %f = fn [A](%a: A) { %a }; @map(%f, %l)`
        -> `let %f = ..; @map(fn (%a: int32) { %f[int32](%a) }, %l)`. What is inside of data gets a
        global function that makes the data anew; `data.finished` gives these.
        """
        result = rebuild(function, self.node)
        assert isinstance(result, Function)
        return result

    def node(self, before: Expr, after: Expr) -> Expr:
        """Return a node with casts of its operands."""
        if isinstance(before, Call) and before.op in _READS:
            assert isinstance(after, Call)
            return self.read(before, after)
        parts = list(children(after))
        for place, wanted in self.places.wanted(before):
            actual = children(before)[place].checked_type
            if actual is not None and (self.generic(actual) or self.generic(wanted)):
                parts[place] = trampoline(self.cast(parts[place], actual, wanted))
        return with_children(after, tuple(parts))

    def read(self, before: Call, after: Call) -> Expr:
        """Return a read of an array, of which only the item that is read becomes another."""
        array, wanted = before.args[0].checked_type, before.checked_type
        if not isinstance(array, TypeCall) or before.type_args == array.args:
            return after
        if not self.generic(array) or wanted is None:
            return after
        actual = array.args[0] if before.op is INTRINSICS["array.get"] else wanted
        call = replace(after, type_args=array.args, checked_type=actual)
        result: Expr = trampoline(self.cast(call, actual, wanted))
        return result

    def same(self, actual: Type, wanted: Type) -> bool:
        """Return True for types that differ at most in sizes and in names of parameters."""
        if actual is wanted or not (self.generic(actual) or self.generic(wanted)):
            return True
        return structural_equal(self.erase(actual), self.erase(wanted))

    def cast(self, expr: Expr, actual: Type, wanted: Type) -> Recursive[Expr]:
        """Return a value of the type that is wanted."""
        if self.same(actual, wanted):
            return expr
        if not isinstance(expr, LEAVES):
            name = Var("v", span=expr.span, checked_type=actual)
            inner: Expr = yield self.cast(name, actual, wanted)
            return Let(name, expr, inner, span=expr.span, checked_type=wanted)
        if isinstance(actual, TupleType) and isinstance(wanted, TupleType):
            fields: list[Expr] = []
            for place, (own, kind) in enumerate(zip(actual.fields, wanted.fields)):
                field = TupleGetItem(expr, place, span=expr.span, checked_type=own)
                fields.append((yield self.cast(field, own, kind)))
            return Tuple(tuple(fields), span=expr.span, checked_type=wanted)
        if isinstance(actual, FuncType) and isinstance(wanted, FuncType):
            function: Expr = yield self.function(expr, actual, wanted)
            return function
        if isinstance(actual, TypeCall) and isinstance(wanted, TypeCall):
            return self.data.call(expr, actual, wanted)
        raise NotClosed("a reference is taken as one that holds functions of other types")

    def function(self, expr: Expr, actual: FuncType, wanted: FuncType) -> Recursive[Expr]:
        """Return a function of the type that is wanted, which calls the one that there is."""
        span = expr.span
        own = with_own_params(wanted)
        takes, gives = own.arg_types, own.ret_type
        found: dict[TypeVar, Type] = {}
        known = type_params_only(actual.type_params)
        match_types(actual, FuncType(takes, gives), set(known), found)
        bound: dict[TypeParam, Type | Dim] = {p: found.get(p, UNIT) for p in known}
        xs = [Var(f"x{i}", t, span=span, checked_type=t) for i, t in enumerate(takes)]
        args: list[Expr] = []
        for x, own_type, inner in zip(xs, takes, actual.arg_types):
            args.append((yield self.cast(x, own_type, substitute_in_type(inner, bound))))
        result = substitute_in_type(actual.ret_type, bound)
        sized = any(isinstance(p, DimVar) for p in actual.type_params)
        given = () if sized else tuple(found.get(p, UNIT) for p in known)
        call = Call(expr, tuple(args), type_args=given, span=span, checked_type=result)
        body: Expr = yield self.cast(call, result, gives)
        return Function(
            tuple(xs),
            body,
            gives,
            own.type_params,
            type_constraints=own.type_constraints,
            span=span,
            checked_type=own,
        )


class DeclaredTypes:
    """The polymorphic types that a program mentions."""

    def __init__(self, module: Module) -> None:
        self.found: dict[tuple[tuple[Type, ...], Type], FuncType] = {}
        self.seen: set[int] = set()
        for data in module.types.values():
            for constructor in data.constructors:
                self.note(constructor.inputs)
        for function in module.functions.values():
            for node in post_order(function):
                self.note((node.checked_type, *(v.checked_type for v in binders(node))))
                self.note(tuple(node_types(node)))

    def note(self, types: tuple[Type | None, ...]) -> None:
        """Note the polymorphic types in some types."""
        for type_ in filter(None, types):
            for part in type_walk(type_, self.seen):
                if isinstance(part, FuncType) and type_params_only(part.type_params):
                    self.found[part.arg_types, part.ret_type] = part

    def applied(self, function: Function) -> Function:
        """Return a typed function in which what is declared as polymorphic is so.

        Inference checks what a polymorphic type is declared for at the parameters of that type: in
        `let %f: fn [A](A) -> A = @same` the name is of type `fn (A) -> A`, with no `A` in scope.
        """
        nodes = (n for n in post_order(function) if isinstance(n, Function))
        bound = {param for node in nodes for param in node.type_params}
        outer = {k: t for k, t in self.found.items() if bound.isdisjoint(t.type_params)}
        if not outer:
            return function
        own = {p: p for p in bound if isinstance(p, TypeVar)}
        sizes = {p: symbol(p) for p in bound if isinstance(p, DimVar)}
        copy = Copier(_Declared(outer, own, sizes)).copy(function)
        assert isinstance(copy, Function)
        return copy


class _Declared(TypeMap):
    def __init__(
        self,
        declared: dict[tuple[tuple[Type, ...], Type], FuncType],
        types: Mapping[TypeVar, Type],
        dims: Mapping[DimVar, Dim],
    ) -> None:
        super().__init__(types, dims)
        self.declared = declared

    def function(self, type_: FuncType) -> Type:
        if type_.type_params:
            return type_
        return self.declared.get((type_.arg_types, type_.ret_type), type_)
