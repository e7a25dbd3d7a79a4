"""Which function types of a program share values: those of which one flows where another stands."""

from __future__ import annotations

from collections.abc import Iterator

from relayvm.compiler.transforms.copies import TypeMap
from relayvm.compiler.transforms.instances import ClosedTypes, type_parts
from relayvm.ir.expr import (
    Call,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
)
from relayvm.ir.intrinsics import Intrinsic
from relayvm.ir.module import Module
from relayvm.ir.types import FuncType, RefType, TupleType, Type, TypeVar
from relayvm.ir.visit import children, is_concrete, post_order

Pair = tuple[Type | None, Type | None]


class FunctionFlows:
    """Classes of function types that differ in sizes only and have values in common. Sizes that
    depend on a run are `?` in them.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.close: TypeMap = ClosedTypes()
        self._parent: dict[Type, Type] = {}
        self._related: set[tuple[int, int]] = set()
        self._kept: list[Pair] = []
        for function in module.functions.values():
            for node in post_order(function):
                for pair in self._pairs(node):
                    self._relate(*pair)

    def of(self, type_: FuncType) -> Type:
        """Return the type that stands for the class of a function type."""
        root = closed = self.close(type_)
        while (above := self._parent.get(root, root)) is not root:
            root = above
        if root is not closed:
            self._parent[closed] = root
        return root

    def _pairs(self, node: Expr) -> Iterator[Pair]:
        """Yield the types of values and of the places where a node puts them."""
        kind = node.checked_type
        match node:
            case Call():
                yield from self._of_call(node)
            case Let():
                yield node.value.checked_type, node.var.checked_type
                yield node.var.type_annotation, node.var.checked_type
                yield node.body.checked_type, kind
            case Function() if isinstance(kind, FuncType):
                for param, own in zip(node.params, kind.arg_types):
                    yield param.checked_type, own
                    yield param.type_annotation, own
                yield node.body.checked_type, kind.ret_type
                yield node.ret_type, kind.ret_type
            case If() | Match():
                yield from ((part.checked_type, kind) for part in children(node)[1:])
            case Tuple() if isinstance(kind, TupleType):
                yield from ((f.checked_type, k) for f, k in zip(node.fields, kind.fields))
            case TupleGetItem() if isinstance(node.tuple_value.checked_type, TupleType):
                yield node.tuple_value.checked_type.fields[node.index], kind
            case RefCreate() if isinstance(kind, RefType):
                yield node.value.checked_type, kind.value
            case RefRead() if isinstance(node.ref.checked_type, RefType):
                yield node.ref.checked_type.value, kind
            case RefWrite() if isinstance(node.ref.checked_type, RefType):
                yield node.value.checked_type, node.ref.checked_type.value
            case GlobalVar():
                yield self.module.functions[node.name].checked_type, kind
        if isinstance(node, Match):
            for clause in node.clauses:
                yield from self._of_pattern(clause.lhs, node.data.checked_type)

    def _of_pattern(self, pattern: object, kind: Type | None) -> Iterator[Pair]:
        waiting = [(pattern, kind)]
        while waiting:
            pattern, kind = waiting.pop()
            if isinstance(pattern, PatternVar):
                yield kind, pattern.var.checked_type
                yield pattern.var.type_annotation, pattern.var.checked_type
            elif isinstance(pattern, PatternConstructor):
                waiting.extend(zip(pattern.patterns, self._fields(pattern.constructor)))
            elif isinstance(pattern, PatternTuple) and isinstance(kind, TupleType):
                waiting.extend(zip(pattern.patterns, kind.fields))

    def _fields(self, constructor: Constructor) -> tuple[Type, ...]:
        data = self.module.types[constructor.belong_to.name]
        return data.constructors[constructor.index].inputs

    def _of_call(self, call: Call) -> Iterator[Pair]:
        op, args = call.op, [a.checked_type for a in call.args]
        if isinstance(op, Constructor):
            yield from zip(args, self._fields(op))
            return
        if isinstance(op, Intrinsic):
            found = tuple(t for t in (*args, call.checked_type) if t is not None)
            yield TupleType(found), TupleType((*op.type.arg_types, op.type.ret_type))
            return
        kinds = [op.checked_type]
        if isinstance(op, GlobalVar):
            kinds.append(self.module.functions[op.name].checked_type)
        for kind in kinds:
            if isinstance(kind, FuncType):
                yield from zip((*args, call.checked_type), (*kind.arg_types, kind.ret_type))

    def _relate(self, a: Type | None, b: Type | None) -> None:
        held: dict[TypeVar, Type] = {}
        # What stands for the type variables of an operation is another at each of its calls.
        related = self._related if is_concrete(b) else set[tuple[int, int]]()
        waiting: list[Pair] = [(a, b)]
        while waiting:
            a, b = waiting.pop()
            if isinstance(b, TypeVar) and a is not None:
                # What an operation on arrays puts at two places is of one type.
                b = held.setdefault(b, a)
            if a is None or b is None or a is b or (id(a), id(b)) in related:
                continue
            related.add((id(a), id(b)))
            self._kept.append((a, b))
            if isinstance(a, FuncType) and isinstance(b, FuncType):
                one, other = self.of(a), self.of(b)
                if one != other:
                    self._parent[one] = other
            waiting.extend(zip(type_parts(a), type_parts(b)))
