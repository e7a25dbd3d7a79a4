"""Instruction selection: A-normal Relay with flat matches and lifted closures becomes linear code.

Knows nothing of counts and places: `memory` and `registers` come after.
"""

from __future__ import annotations

from collections.abc import Callable

from relayvm.base.abi import TrapCode
from relayvm.base.diagnostics import InternalError
from relayvm.base.source import Span
from relayvm.base.trampoline import Recursive, trampoline
from relayvm.compiler.lower.calls import Calls
from relayvm.compiler.lower.code import (
    Bundle,
    Value,
    bits_of,
    registers_of,
    return_type_of,
    type_of,
)
from relayvm.compiler.lower.layouts import class_of, is_spread
from relayvm.compiler.lower.linear import (
    OBJECT,
    WORD,
    Block,
    Choice,
    Def,
    LinearFunction,
    Reg,
    Take,
    Use,
)
from relayvm.compiler.transforms.blocks import Binding, split_block
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
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from relayvm.ir.types import UNIT, FuncType, RefType, TupleType, Type

Finish = Callable[[Expr], Recursive[None]]

# Tuples in tuples meet as fields so deep; what is deeper is a cell, or each join of a type that
# grows from join to join would have as many registers as it is deep.
SPREAD_LEVELS = 4


class Selector(Calls):
    """Emits one function."""

    # -- Functions ---------------------------------------------------------------------------------

    def function(self, name: str, function: Function) -> LinearFunction:
        """Return the code of a global function."""
        params = [self._param(p, class_of(type_of(p))) for p in function.params]
        for var, reg in zip(function.params, params):
            self.values[var] = reg
            self.dims.declare(var, type_of(var))
        self.results = return_type_of(function)
        for var in function.params:
            self.dims.check_sizes(var)
        self.span = function.span
        trampoline(self.tail(function.body))
        return LinearFunction(
            name,
            params,
            self.layouts.results_of(self.results),
            self.block,
            owned_params=name in self.unit.owned,
            span=function.span,
        )

    def closure_body(self, name: str, lifted: Function) -> LinearFunction:
        """Return the code of a closure: its captures are fields of the closure, its first
        parameter.
        """
        own, itself = lifted_parts(lifted)
        closure = Reg(OBJECT, itself.name if itself else "", is_param=True)
        params = [self._param(p, self.layouts.field_class(type_of(p))) for p in own.params]
        if itself is not None:
            self.values[itself] = closure
        layout = self.unit.closure_layout(name)
        for index, capture in enumerate(lifted.params):
            kind = self.layouts.field_class(type_of(capture))
            reg = self.field(closure, layout, index, kind, type_of(capture), capture.span)
            self.values[capture] = self.local(reg, type_of(capture), capture.span)
            self.dims.declare(capture, type_of(capture))
        for var, reg in zip(own.params, params):
            self.values[var] = self.local(reg, type_of(var), var.span)
            self.dims.declare(var, type_of(var))
        for var in own.params:
            self.dims.check_sizes(var)
        self.results = return_type_of(own)
        self.span = own.span
        trampoline(self.tail(own.body))
        results = self.layouts.results_of(self.results, closure=True)
        return LinearFunction(
            name, [closure, *params], results, self.block, owned_params=True, span=own.span
        )

    def _param(self, var: Var, kind: str) -> Reg:
        return Reg(kind, var.name, type_of(var), is_param=True)

    # -- Blocks ------------------------------------------------------------------------------------

    def tail(self, expr: Expr) -> Recursive[None]:
        """Emit an expression whose value is the function's."""
        bindings, last = split_block(expr)
        for binding in bindings:
            yield from self._let(binding)
        match last:
            case If():
                yield self._branch(last, self.tail, [])
            case Match():
                yield self._match(last, self.tail, [])
            case Call() if self._tail_call(last):
                pass
            case Var():
                # A variable has the span of its binder, which may be in another function.
                before = bindings[-1].span if bindings else None
                self._return(self.value(last), type_of(last), before or self.span)
            case _:
                self._return(self.value(last), type_of(last), last.span)

    def _let(self, binding: Binding) -> Recursive[None]:
        var, value = binding.var, binding.value
        result = yield from self._branching(value)
        if var.checked_type is not None and value.checked_type is not None:
            self.check(result, value.checked_type, var.checked_type, value.span)
        self.bind(var, result)

    def _return(self, value: Value, kind: Type, span: Span | None) -> None:
        self.check(value, kind, self.results, span)
        if self.closure and self.layouts.uniform:
            values = [self.as_class(value, OBJECT, span)]
        elif is_spread(self.results):
            assert isinstance(self.results, TupleType)
            parts = self.spread(value, self.results, span)
            whole: dict[int, Reg] = {}  # a tuple that is returned twice is one cell
            for part, type in zip(parts, self.results.fields):
                if id(part) not in whole:
                    whole[id(part)] = self.as_class(part, class_of(type), span)
            values = [whole[id(part)] for part in parts]
        else:
            values = [self.as_class(value, class_of(self.results), span)]
        given = tuple(Use(r) if r.kind == WORD else Take(r) for r in values)
        self.emit("return", given, span=span)

    def _branch(self, choice: If, finish: Finish, joins: list[Reg]) -> Recursive[None]:
        cond = self.as_class(self.value(choice.cond), WORD, choice.span)
        blocks: list[Block] = []
        for branch in (choice.true_branch, choice.false_branch):
            block = yield self._inside(finish(branch))
            blocks.append(block)
        self.block.add(Choice(cond, blocks, choice.span, joins=joins))

    def _match(self, match: Match, finish: Finish, joins: list[Reg]) -> Recursive[None]:
        if not match.clauses:
            yield self._failure(match, joins)
            return
        data = self.as_class(self.value(match.data), OBJECT, match.span)
        kind = type_of(match.data)
        layout = self.layouts.data(kind)
        clauses: dict[int, Clause] = {}
        for clause in match.clauses:
            assert isinstance(clause.lhs, PatternConstructor), "matches are compiled"
            clauses[clause.lhs.constructor.index] = clause
        blocks: list[Block] = []
        for index in range(self.layouts.num_constructors(kind)):
            code = self._clause(clauses.get(index), data, kind, match, finish)
            block = yield self._inside(code)
            blocks.append(block)
        self.block.add(Choice(data, blocks, match.span, layout=layout, joins=joins))

    def _failure(self, match: Match, joins: list[Reg]) -> Recursive[None]:
        """End the run in a match without clauses, whatever it matches."""
        blocks: list[Block] = []
        for _ in range(2):
            block = yield self._inside(self._no_clause(match))
            blocks.append(block)
        self.block.add(Choice(self.word(1, match.span), blocks, match.span, joins=joins))

    def _no_clause(self, match: Match) -> Recursive[None]:
        self.emit("trap", int(TrapCode.MATCH_FAILED), span=match.span)
        yield from ()

    def _clause(
        self, clause: Clause | None, data: Reg, kind: Type, match: Match, finish: Finish
    ) -> Recursive[None]:
        if clause is None:
            yield self._no_clause(match)
            return
        assert isinstance(clause.lhs, PatternConstructor)
        constructor = clause.lhs.constructor
        layout = self.layouts.constructor(kind, constructor)
        types = self.layouts.fields_of(kind, constructor)
        for index, (pattern, field_type) in enumerate(zip(clause.lhs.patterns, types)):
            if isinstance(pattern, PatternVar) and pattern.var in self.unit.used:
                slot = self.layouts.field_class(field_type)
                reg = self.field(data, layout, index, slot, field_type, pattern.span)
                self.bind(pattern.var, self.local(reg, field_type, pattern.span))
        yield finish(clause.rhs)

    def _inside(self, emit: Recursive[None]) -> Recursive[Block]:
        outer, self.block = self.block, Block()
        self.dims.push()
        yield emit
        self.dims.pop()
        inner, self.block = self.block, outer
        return inner

    # -- Values ------------------------------------------------------------------------------------

    def value(self, expr: Expr) -> Value:
        """Emit an expression and return where its value lies."""
        match expr:
            case Var():
                return self.lookup(expr)
            case Constant():
                return self._constant(expr)
            case Tuple():
                kind = type_of(expr)
                assert isinstance(kind, TupleType)
                return Bundle([self.value(f) for f in expr.fields], kind)
            case TupleGetItem():
                return self._get_item(expr)
            case GlobalVar() | Constructor():
                return self._function_value(expr)
            case RefCreate() | RefRead() | RefWrite():
                return self._reference(expr)
            case Call():
                return self._call(expr)
            case Function():
                raise InternalError("a local function is left: closures are not lifted")
            case _:
                raise InternalError(f"no code for {type(expr).__name__}")

    def _constant(self, expr: Constant) -> Reg:
        kind = type_of(expr)
        if class_of(kind) == WORD:
            reg = self.word(bits_of(expr), expr.span)
            reg.type = kind
            return reg
        reg = Reg(OBJECT, type=kind, borrowed=True)
        self.emit("constant", Def(reg), self.unit.constant(expr.data), span=expr.span)
        return reg

    def _get_item(self, expr: TupleGetItem) -> Value:
        kind = type_of(expr.tuple_value)
        assert isinstance(kind, TupleType)
        return self.item(self.value(expr.tuple_value), kind, expr.index, expr.span)

    def _branching(self, expr: Expr) -> Recursive[Value]:
        """Emit an expression that may be a choice."""
        if isinstance(expr, (If, Match)):
            result: Value = yield self._joined(expr)
            return result
        return self.value(expr)

    def _joined(self, expr: If | Match) -> Recursive[Value]:
        kind = type_of(expr)
        value = self._join_of(kind)
        joins = registers_of(value)

        def finish(branch: Expr) -> Recursive[None]:
            bindings, last = split_block(branch)
            for binding in bindings:
                yield from self._let(binding)
            result = yield from self._branching(last)
            self._assign(value, result, last.span)

        if isinstance(expr, If):
            yield self._branch(expr, finish, joins)
        else:
            yield self._match(expr, finish, joins)
        return value

    def _join_of(self, kind: Type, levels: int = SPREAD_LEVELS) -> Value:
        if levels and is_spread(kind):
            assert isinstance(kind, TupleType)
            return Bundle([self._join_of(f, levels - 1) for f in kind.fields], kind)
        return Reg(class_of(kind), type=kind)

    def _assign(self, target: Value, value: Value, span: Span | None) -> None:
        if isinstance(target, Bundle):
            for part, new in zip(target.fields, self.spread(value, target.type, span)):
                self._assign(part, new, span)
            return
        reg = self.as_class(value, target.kind, span)
        if target.kind == WORD:
            self.emit("move", Def(target), Use(reg), span=span)
        else:
            self.emit("move_object", Def(target), Take(reg), span=span)

    def _reference(self, expr: RefCreate | RefRead | RefWrite) -> Value:
        span = expr.span
        if isinstance(expr, RefCreate):
            content = type_of(expr.value)
            slot = self.layouts.field_class(content)
            held = self.as_class(self.value(expr.value), slot, span)
            result = Reg(OBJECT, type=type_of(expr))
            name, role = ("ref_new_word", Use(held)) if slot == WORD else ("ref_new", Take(held))
            self.emit(name, Def(result), self.layouts.ref_to(content), role, span=span)
            return result
        kind = type_of(expr.ref)
        assert isinstance(kind, RefType)
        slot, layout = self.layouts.field_class(kind.value), self.layouts.ref_to(kind.value)
        ref = self.whole(self.value(expr.ref), span)
        if isinstance(expr, RefRead):
            result = Reg(slot, type=kind.value)
            name = "ref_read_word" if slot == WORD else "ref_read"
            self.emit(name, Def(result), Use(ref), layout, span=span)
            return self.local(result, kind.value, span)
        value = self.value(expr.value)
        self.check(value, type_of(expr.value), kind.value, span)
        held = self.as_class(value, slot, span)
        name, role = ("ref_write_word", Use(held)) if slot == WORD else ("ref_write", Take(held))
        self.emit(name, Use(ref), layout, role, span=span)
        return Bundle([], UNIT)

    def _function_value(self, expr: GlobalVar | Constructor) -> Reg:
        if isinstance(expr, Constructor) and not expr.inputs:
            return self._cell(
                self.layouts.constructor(type_of(expr), expr), (), type_of(expr), expr.span
            )
        kind = type_of(expr)
        assert isinstance(kind, FuncType)
        layout = self.unit.wrapper(expr, kind)
        return self._cell(layout, (), kind, expr.span)


def lifted_parts(lifted: Function) -> tuple[Function, Var | None]:
    """Return the inner function of a lifted closure, and the name by which it calls itself."""
    bindings, tail = split_block(lifted.body)
    if isinstance(tail, Function):
        return tail, None
    assert len(bindings) == 1 and bindings[0].var is tail
    inner = bindings[0].value
    assert isinstance(inner, Function)
    return inner, bindings[0].var
