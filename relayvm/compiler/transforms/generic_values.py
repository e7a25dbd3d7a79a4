"""Polymorphic values: each place that takes one at known types names the instance it takes."""

from __future__ import annotations

from dataclasses import replace

from relayvm.base.trampoline import Recursive, trampoline
from relayvm.compiler.transforms.copies import Copier, TypeMap
from relayvm.compiler.transforms.generic_places import GenericTypes, Places
from relayvm.compiler.transforms.instances import (
    NotClosed,
    match_types,
    shape_params_only,
    type_params_only,
)
from relayvm.compiler.transforms.to_anf import function_to_anf
from relayvm.ir.expr import (
    Call,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    Pattern,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    Tuple,
    TupleGetItem,
    Var,
)
from relayvm.ir.intrinsics import Intrinsic
from relayvm.ir.module import Module
from relayvm.ir.types import UNIT, FuncType, TupleType, Type
from relayvm.ir.visit import (
    children,
    post_order,
    rebuild,
    with_children,
)


def with_named_instances(function: Function, module: Module) -> Function:
    """Let every place that takes a polymorphic value at known types name the instance.

    `let %t = (fn [A](%x: A) { %x }, 1); @map(%t.0, %l)` ->
    `let %f = fn [A](%x: A) { %x }; let %g: fn (int32) -> int32 = %f; @map(%g, %l)`. What else than
    calls and such lets uses a local function is gone. The same object if there is no such place.
    Requires TYPED; ensures ANF, but for the lets that it adds as operands. Raises NotClosed.
    """
    generic = GenericTypes()
    if not any(_is_generic_value(node, generic) for node in post_order(function.body)):
        return function
    named = function_to_anf(function)
    known = _KnownValues(named, generic)
    taken = _Instances(module, generic, known).run(named)
    return known.without_unused(taken)


def _is_generic_value(node: Expr, generic: GenericTypes) -> bool:
    """Return True if a polymorphic value is used other than by a call or by a name for it."""
    parts = children(node)
    if isinstance(node, Let) and isinstance(node.value, (Function, GlobalVar, Constructor)):
        # The value gets its name here, or is of a narrower type that the name declares.
        parts = parts[1:] if generic(node.var.checked_type) else parts
    if isinstance(node, Call):
        named = isinstance(node.op, (Var, GlobalVar, Constructor, Intrinsic))
        parts = node.args if named else parts
    return any(generic(part.checked_type) for part in parts)


class _KnownValues:
    """What the variables of a function in A-normal form stand for, where tuples are taken apart."""

    def __init__(self, function: Function, generic: GenericTypes) -> None:
        self.generic = generic
        self.values = {id(n.var): n.value for n in post_order(function.body) if isinstance(n, Let)}
        for node in post_order(function.body):
            if isinstance(node, Match) and generic(node.data.checked_type):
                for clause in node.clauses:
                    self._bind(clause.lhs, node.data)
        self._atoms: dict[int, Expr] = {}
        # In order of evaluation, so that what an atom was made of is known before.
        for node in post_order(function.body):
            if isinstance(node, (Var, TupleGetItem)):
                self.atom(node)

    def _bind(self, pattern: Pattern, value: Expr) -> None:
        """Note which parts of a value the variables of a pattern stand for."""
        waiting = [(pattern, value)]
        while waiting:
            pattern, value = waiting.pop()
            kind = value.checked_type
            if isinstance(pattern, PatternVar) and self.generic(kind):
                self.values[id(pattern.var)] = value
            elif isinstance(pattern, PatternTuple) and isinstance(kind, TupleType):
                for place, (part, own) in enumerate(zip(pattern.patterns, kind.fields)):
                    waiting.append((part, TupleGetItem(value, place, checked_type=own)))

    def matched(self, match: Match) -> Match:
        """Return a match without the polymorphic parts of what it matches: these have no names."""
        data = trampoline(self._plain(match.data))
        clauses = (replace(c, lhs=trampoline(self._plain_pattern(c.lhs))) for c in match.clauses)
        return replace(match, data=data, clauses=tuple(clauses))

    def _plain(self, expr: Expr) -> Recursive[Expr]:
        expr = self.atom(expr)
        if not self.generic(expr.checked_type):
            return expr
        made = self.values.get(id(expr))
        if not isinstance(expr.checked_type, TupleType):
            return Tuple((), checked_type=UNIT)
        if not isinstance(made, Tuple):
            raise NotClosed("a tuple of polymorphic functions is a value")
        fields: list[Expr] = []
        for field in made.fields:
            fields.append((yield self._plain(field)))
        kinds = tuple(f.checked_type for f in fields if f.checked_type is not None)
        return Tuple(tuple(fields), span=made.span, checked_type=TupleType(kinds))

    def _plain_pattern(self, pattern: Pattern) -> Recursive[Pattern]:
        if isinstance(pattern, PatternVar) and self.generic(pattern.var.checked_type):
            return PatternWildcard()
        if not isinstance(pattern, PatternTuple):
            return pattern
        parts: list[Pattern] = []
        for part in pattern.patterns:
            parts.append((yield self._plain_pattern(part)))
        return replace(pattern, patterns=tuple(parts))

    def atom(self, expr: Expr) -> Expr:
        """Return the atom that a variable of a polymorphic value was made of."""
        path: list[Expr] = []
        while id(expr) not in self._atoms:
            below = self._below(expr)
            if below is None:
                break
            path.append(expr)
            expr = below
        found = self._atoms.get(id(expr), expr)
        for step in path:
            self._atoms[id(step)] = found
        return found

    def _below(self, expr: Expr) -> Expr | None:
        if isinstance(expr, TupleGetItem):
            whole = self.atom(expr.tuple_value)
            made = self.values.get(id(whole))
            if isinstance(made, Tuple) and self.generic(made.checked_type):
                return made.fields[expr.index]
            return None
        value = self.values.get(id(expr))
        if isinstance(value, (Var, GlobalVar, Constructor)) and self.generic(value.checked_type):
            # A let that declares a narrower type is the place where the instance is taken.
            return value if self.generic(expr.checked_type) else None
        return value if isinstance(value, TupleGetItem) and self._below(value) else None

    def without_unused(self, function: Function) -> Function:
        """Return the function without the names of polymorphic values that nothing uses now."""
        counts: dict[int, int] = {}
        nodes = list(post_order(function.body))
        for node in (*nodes, function):
            for part in children(node):
                counts[id(part)] = counts.get(id(part), 0) + 1
        unused: set[int] = set()
        for node in nodes:
            if not isinstance(node, Let) or counts.get(id(node.var)):
                continue
            plain = isinstance(node.value, (Var, Tuple, TupleGetItem, GlobalVar, Constructor))
            if plain and any(map(self.generic, (node.var.checked_type, node.value.checked_type))):
                unused.add(id(node))
                # Inner lets come first, so that what only they used is unused in its turn.
                for part in (node.value, *children(node.value)):
                    counts[id(part)] -= 1

        def step(before: Expr, after: Expr) -> Expr:
            if id(before) not in unused:
                return after
            assert isinstance(after, Let)
            return after.body

        result = rebuild(function, step)
        assert isinstance(result, Function)
        return result


class _Instances:
    """Adds the lets that name the instances."""

    def __init__(self, module: Module, generic: GenericTypes, known: _KnownValues) -> None:
        self.places = Places(module)
        self.generic = generic
        self.known = known

    def run(self, function: Function) -> Function:
        result = rebuild(function, self.node)
        assert isinstance(result, Function)
        return result

    def node(self, before: Expr, after: Expr) -> Expr:
        """Return a node whose operands are of the types that it takes."""
        if isinstance(before, TupleGetItem):
            # A part that is not polymorphic is taken from the parts too: the tuple goes.
            return self.known.atom(before) if self.known.atom(before) is not before else after
        parts = list(children(after))
        for place, part in enumerate(children(before)):
            if isinstance(part, Var):
                parts[place] = self.known.atom(part)
        for place, wanted in self.places.wanted(before):
            actual = children(before)[place].checked_type
            if self.generic(actual) and not self.generic(wanted):
                assert actual is not None
                parts[place] = trampoline(self.taken(parts[place], actual, wanted))
        new = with_children(after, tuple(parts))
        if isinstance(before, Match) and isinstance(new, Match):
            known = self.known.values.get(id(self.known.atom(before.data)))
            if isinstance(known, Tuple) and self.generic(known.checked_type):
                return self.known.matched(new)
        return new

    def taken(self, expr: Expr, actual: Type, wanted: Type) -> Recursive[Expr]:
        """Return the instance of a polymorphic value that is of the type that is wanted."""
        match expr:
            case Let():
                body = yield self.taken(expr.body, actual, wanted)
                return replace(expr, body=body, checked_type=wanted)
            case If() | Match():
                parts = list(children(expr))
                for place in range(1, len(parts)):
                    parts[place] = yield self.taken(parts[place], actual, wanted)
                return replace(with_children(expr, tuple(parts)), checked_type=wanted)
        if isinstance(actual, TupleType) and isinstance(wanted, TupleType):
            whole: Expr = yield self.taken_parts(expr, actual, wanted)
            return whole
        if not isinstance(actual, FuncType) or not isinstance(wanted, FuncType):
            raise NotClosed("a polymorphic function is inside of another value")
        if not type_params_only(actual.type_params):
            raise NotClosed("a function takes or returns polymorphic functions")
        if isinstance(expr, Function):
            return _instance(expr, actual, wanted)
        if isinstance(expr, (GlobalVar, Constructor)):
            return replace(expr, checked_type=wanted)
        name = expr.name if isinstance(expr, Var) else "v"
        var = Var(name, span=expr.span, checked_type=wanted)
        return Let(var, expr, var, span=expr.span, checked_type=wanted)

    def taken_parts(self, expr: Expr, actual: TupleType, wanted: TupleType) -> Recursive[Expr]:
        made = expr if isinstance(expr, Tuple) else self.known.values.get(id(expr))
        fields: list[Expr] = []
        for place, (kind, own) in enumerate(zip(actual.fields, wanted.fields)):
            if isinstance(made, Tuple):
                field: Expr = self.known.atom(made.fields[place])
            else:
                field = TupleGetItem(expr, place, span=expr.span, checked_type=kind)
            if self.generic(kind):
                field = yield self.taken(field, kind, own)
            fields.append(field)
        return Tuple(tuple(fields), span=expr.span, checked_type=wanted)


def _instance(function: Function, actual: FuncType, wanted: FuncType) -> Function:
    """Return the copy of a polymorphic function for the types of one place."""
    params = type_params_only(actual.type_params)
    types = TypeMap()
    match_types(actual, wanted, set(params), types.types)
    if any(p not in types.types for p in params):
        raise NotClosed("a type argument is not determined")
    kept = shape_params_only(actual.type_params)
    kind = replace(actual, type_params=kept, type_constraints=())
    plain = replace(function, type_params=kept, type_constraints=(), checked_type=kind)
    copy = Copier(types).copy(plain)
    assert isinstance(copy, Function)
    return copy
