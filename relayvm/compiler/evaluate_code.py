"""Translation of functions into the flat code that the evaluator runs.

Each function has one row of slots. Variables and shared nodes are slots; a node is computed by code
that stands in the block of its own scope, so that sharing needs no bookkeeping at run time. Blocks
nest; they are entered and left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from relayvm.base.diagnostics import InternalError, assert_never
from relayvm.base.dims import DimExpr
from relayvm.base.dtypes import dtype_of
from relayvm.base.trampoline import Recursive, trampoline
from relayvm.compiler.analysis.scopes import Scopes, is_atomic
from relayvm.compiler.analysis.sizes import instance_types
from relayvm.compiler.infer_types import needs_check
from relayvm.ir.adt import field_types, pattern_types
from relayvm.ir.expr import (
    Call,
    Clause,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from relayvm.ir.intrinsics import Intrinsic, item_of_call
from relayvm.ir.module import Module
from relayvm.ir.scope import Scope
from relayvm.ir.types import FuncType, RefType, TensorType, TupleType, Type
from relayvm.ops.operator import Operator
from relayvm.ops.reshaping import with_sizes_of_zero

(
    OPERATOR,
    CALL,
    TAIL_CALL,
    RETURN,
    CHOOSE,
    LEAVE,
    MATCH,
    CONSTRUCT,
    TUPLE,
    FIELD,
    CLOSURE,
    CHECK,
    REF_NEW,
    REF_READ,
    REF_WRITE,
    INTRINSIC,
) = range(16)

Instruction = tuple[Any, ...]
DIMS_SLOT = 0
TEST, TAKE_FIELD, TAKE_ITEM = range(3)


@dataclass(slots=True, eq=False)
class GlobalName:
    """A global function as a value; its code is found when it is called."""

    name: str


@dataclass(slots=True, eq=False)
class OperatorCode:
    """What one call of an operator needs: its attributes are complete, `checked` asks for the shape
    rule, `sized` are the operands whose types have sizes with names.
    """

    operator: Operator
    attrs: dict[str, Any]
    symbolic: bool
    checked: bool
    result: Type | None
    result_bytes: int | None
    sized: tuple[tuple[int, Type], ...]


@dataclass(slots=True, eq=False)
class Code:
    """The code of one function. `row` holds the constants; `captures` are slots of the creating
    function.
    """

    name: str
    function: Function
    params: list[int] = field(default_factory=list)
    row: list[Any] = field(default_factory=lambda: [None])
    captures: list[int] = field(default_factory=list)
    capture_slots: list[int] = field(default_factory=list)
    self_slot: int = -1
    checks: list[tuple[int, Type, str]] = field(default_factory=list)
    binds_dims: bool = False
    body: list[Instruction] = field(default_factory=list)

    def new_slot(self, value: Any = None) -> int:
        """Return a further slot; `value` is what it holds at entry."""
        self.row.append(value)
        return len(self.row) - 1


@dataclass(slots=True, eq=False)
class _Frame:
    code: Code
    parent: _Frame | None
    slots: dict[int, int] = field(default_factory=dict)


Block = list[Instruction]


def translate(name: str, function: Function, module: Module | None = None) -> Code:
    """Return the code of a global function; `module` knows its data types."""
    return _Translator(function, module).translate(name)


class _Translator:
    def __init__(self, function: Function, module: Module | None) -> None:
        self.function = function
        self.module = module
        self.scopes = Scopes(function)
        self.places: dict[Scope, tuple[_Frame, Block]] = {}
        self.done: dict[int, int] = {}
        self.constants: dict[int, Any] = {}
        self.kept: list[Any] = []

    def translate(self, name: str) -> Code:
        code = Code(name, self.function)
        frame = _Frame(code, None)
        trampoline(self.function_body(self.function, frame))
        return code

    # -- Functions --------------------------------------------------------------------------------

    def function_body(self, function: Function, frame: _Frame) -> Recursive[None]:
        code = frame.code
        for param in function.params:
            slot = code.new_slot()
            code.params.append(slot)
            frame.slots[id(param)] = slot
            declared = param.type_annotation or param.checked_type
            if declared is not None and has_known_dims(declared):
                code.checks.append((slot, declared, param.name))
        code.binds_dims = bool(code.checks)
        (scope,) = self.scopes.opened(function)
        self.places[scope] = (frame, code.body)
        declared = function.ret_type
        actual = function.body.checked_type
        if declared is None or actual is None or not needs_check(actual, declared):
            yield self.tail(function.body, scope)
            return
        key = yield self.value(function.body)
        slot = self.slot(frame, key)
        code.body.append((CHECK, slot, declared, "the result", function.body.span))
        code.body.append((RETURN, slot))

    def tail(self, node: Expr, scope: Scope) -> Recursive[None]:
        """Emit code that returns the value of `node`, which is the last thing that `scope`
        evaluates.
        """
        frame, block = self.places[scope]
        while isinstance(node, Let) and self.is_new(node, scope):
            yield self.bind(node, frame, block)
            node = node.body
        if self.is_new(node, scope):
            match node:
                case Call() if not isinstance(node.op, (Operator, Constructor, Intrinsic)):
                    slots = yield self.operands((node.op, *node.args), frame)
                    self.check_arguments(node, slots[1:], block)
                    block.append((TAIL_CALL, slots[0], slots[1:], node))
                    return
                case If():
                    yield self.choose(node, frame, block, -1)
                    return
                case Match():
                    yield self.match(node, frame, block, -1)
                    return
        key = yield self.value(node)
        block.append((RETURN, self.slot(frame, key)))

    def is_new(self, node: Expr, scope: Scope) -> bool:
        return not is_atomic(node) and id(node) not in self.done and self.scopes.of(node) is scope

    # -- Values -----------------------------------------------------------------------------------

    def value(self, node: Expr) -> Recursive[int]:
        """Emit code for `node` unless it is there already; return the key of its value."""
        if is_atomic(node):
            return self.atom(node)
        key = id(node)
        if key in self.done:
            return self.done[key]
        frame, block = self.places[self.scopes.of(node)]
        if isinstance(node, Let):
            inner: Expr = node
            passed = []
            while isinstance(inner, Let) and id(inner) not in self.done:
                if self.scopes.of(inner) is not self.scopes.of(node):
                    break
                yield self.bind(inner, frame, block)
                passed.append(inner)
                inner = inner.body
            result: int = yield self.value(inner)
            for let in passed:
                self.done[id(let)] = result
            return result
        yield self.compute(node, frame, block)
        self.done[key] = key
        return key

    def atom(self, node: Expr) -> int:
        match node:
            case Var():
                return self.done.get(id(node), id(node))
            case Constant():
                self.constants[id(node)] = node.data
            case GlobalVar():
                self.constants[id(node)] = GlobalName(node.name)
            case _:
                self.constants[id(node)] = node
        self.kept.append(node)
        return id(node)

    def bind(self, let: Let, frame: _Frame, block: Block) -> Recursive[None]:
        value = let.value
        if isinstance(value, Function):
            # The variable is visible in the function: both are the same key, known before the body
            # is emitted.
            self.done[id(let.var)] = id(value)
        key = yield self.value(value)
        self.done[id(let.var)] = key
        declared = let.var.type_annotation
        if declared is None or not _may_differ(value, declared):
            return
        block.append((CHECK, self.slot(frame, key), declared, f"`%{let.var.name}`", let.span))

    def operands(self, nodes: tuple[Expr, ...], frame: _Frame) -> Recursive[list[int]]:
        keys = []
        for node in nodes:
            key = yield self.value(node)
            keys.append(key)
        return [self.slot(frame, key) for key in keys]

    def compute(self, node: Expr, frame: _Frame, block: Block) -> Recursive[None]:
        match node:
            case Call():
                yield self.call(node, frame, block)
            case Tuple():
                slots = yield self.operands(node.fields, frame)
                block.append((TUPLE, self.new(frame, node), slots))
            case TupleGetItem():
                slots = yield self.operands((node.tuple_value,), frame)
                block.append((FIELD, self.new(frame, node), slots[0], node.index))
            case Function():
                yield self.closure(node, frame, block)
            case If():
                yield self.choose(node, frame, block, self.new(frame, node))
            case Match():
                yield self.match(node, frame, block, self.new(frame, node))
            case RefCreate():
                slots = yield self.operands((node.value,), frame)
                block.append((REF_NEW, self.new(frame, node), slots[0]))
            case RefRead():
                slots = yield self.operands((node.ref,), frame)
                block.append((REF_READ, self.new(frame, node), slots[0]))
            case RefWrite():
                slots = yield self.operands((node.ref, node.value), frame)
                held = node.ref.checked_type
                if isinstance(held, RefType) and _may_differ(node.value, held.value):
                    block.append((CHECK, slots[1], held.value, "the new value", node.span))
                block.append((REF_WRITE, self.new(frame, node), slots[0], slots[1]))
            case _:
                assert_never(node)  # type: ignore[arg-type]

    def call(self, node: Call, frame: _Frame, block: Block) -> Recursive[None]:
        if isinstance(node.op, Operator):
            slots = yield self.operands(node.args, frame)
            code = _operator_code(node, node.op)
            block.append((OPERATOR, self.new(frame, node), code, slots, node))
        elif isinstance(node.op, Intrinsic):
            slots = yield self.operands(node.args, frame)
            self.check_arguments(node, slots, block)
            block.append((INTRINSIC, self.new(frame, node), node.op.name, slots, node))
        elif isinstance(node.op, Constructor):
            slots = yield self.operands(node.args, frame)
            self.check_arguments(node, slots, block)
            block.append((CONSTRUCT, self.new(frame, node), node.op, slots))
        else:
            slots = yield self.operands((node.op, *node.args), frame)
            self.check_arguments(node, slots[1:], block)
            block.append((CALL, self.new(frame, node), slots[0], slots[1:], node))

    def check_arguments(self, node: Call, slots: list[int], block: Block) -> None:
        """Emit that arguments have the dims which the callee's type has in this call."""
        for slot, arg, wanted in zip(slots, node.args, self.wanted(node)):
            if _may_differ(arg, wanted):
                block.append((CHECK, slot, wanted, "an argument", node.span))

    def wanted(self, node: Call) -> Sequence[Type]:
        if isinstance(node.op, Constructor):
            if self.module is None or node.checked_type is None:
                return node.op.inputs
            return field_types(self.module, node.checked_type, node.op)
        if isinstance(node.op, Intrinsic):
            return _intrinsic_operands(node, node.op)
        kind = node.op.checked_type
        if not isinstance(kind, FuncType):
            return ()
        return instance_types(kind.arg_types, kind.type_params, node.type_args)

    def closure(self, node: Function, frame: _Frame, block: Block) -> Recursive[None]:
        code = Code(frame.code.name, node)
        code.self_slot = code.new_slot()
        inner = _Frame(code, frame, {id(node): code.self_slot})
        yield self.function_body(node, inner)
        block.append((CLOSURE, self.new(frame, node), code))

    def choose(self, node: If, frame: _Frame, block: Block, result: int) -> Recursive[None]:
        slots = yield self.operands((node.cond,), frame)
        arms: list[Block] = [[], []]
        bodies = (node.true_branch, node.false_branch)
        for arm, scope, body in zip(arms, self.scopes.opened(node), bodies):
            self.places[scope] = (frame, arm)
            yield self.arm(body, scope, frame, arm, result)
        block.append((CHOOSE, slots[0], arms[0], arms[1], result >= 0))

    def match(self, node: Match, frame: _Frame, block: Block, result: int) -> Recursive[None]:
        slots = yield self.operands((node.data,), frame)
        cases = []
        for clause, scope in zip(node.clauses, self.scopes.opened(node)):
            arm: Block = []
            self.places[scope] = (frame, arm)
            steps = self.pattern(clause, frame, slots[0], node.data.checked_type, arm)
            yield self.arm(clause.rhs, scope, frame, arm, result)
            cases.append((steps, arm))
        block.append((MATCH, cases, result >= 0, node))

    def arm(
        self, body: Expr, scope: Scope, frame: _Frame, arm: Block, result: int
    ) -> Recursive[None]:
        if result < 0:
            yield self.tail(body, scope)
            return
        key = yield self.value(body)
        arm.append((LEAVE, result, self.slot(frame, key)))

    def pattern(
        self, clause: Clause, frame: _Frame, source: int, kind: Type | None, arm: Block
    ) -> list[tuple[int, int, int, int]]:
        """Return the steps `(what, destination, source, number)` that test and bind one pattern;
        what variables in it are declared as is compared in `arm`.
        """
        steps: list[tuple[int, int, int, int]] = []
        stack: list[tuple[Pattern, int, Type | None]] = [(clause.lhs, source, kind)]
        while stack:
            pattern, slot, kind = stack.pop()
            match pattern:
                case PatternWildcard():
                    continue
                case PatternVar():
                    frame.slots[id(pattern.var)] = slot
                    self.check_variable(pattern, slot, kind, arm)
                    continue
                case PatternConstructor():
                    steps.append((TEST, 0, slot, pattern.constructor.index))
                    what = TAKE_FIELD
                case PatternTuple():
                    what = TAKE_ITEM
                case _:
                    raise InternalError(f"unexpected pattern {pattern!r}")
            parts = []
            kinds = pattern_types(self.module, pattern, kind)
            for index, (part, inner) in enumerate(zip(pattern.patterns, kinds)):
                if isinstance(part, PatternWildcard):
                    continue
                destination = frame.code.new_slot()
                steps.append((what, destination, slot, index))
                parts.append((part, destination, inner))
            stack.extend(reversed(parts))
        return steps

    def check_variable(self, pattern: PatternVar, slot: int, kind: Type | None, arm: Block) -> None:
        """Emit that what a pattern binds has the dims that its variable is declared with."""
        declared = pattern.var.type_annotation
        if declared is not None and _flow_may_differ(kind, declared):
            arm.append((CHECK, slot, declared, f"`%{pattern.var.name}`", pattern.span))

    # -- Slots ------------------------------------------------------------------------------------

    def new(self, frame: _Frame, node: Expr) -> int:
        slot = frame.code.new_slot()
        frame.slots[id(node)] = slot
        return slot

    def slot(self, frame: _Frame, key: int) -> int:
        """Return the slot of a value in `frame`; one of an enclosing function is captured on the
        way in.
        """
        if key in frame.slots:
            return frame.slots[key]
        if key in self.constants:
            slot = frame.code.new_slot(self.constants[key])
            frame.slots[key] = slot
            return slot
        inner: list[_Frame] = []
        outer: _Frame | None = frame
        while outer is not None and key not in outer.slots:
            inner.append(outer)
            outer = outer.parent
        if outer is None:
            raise InternalError("a variable is used outside of its scope")
        slot = outer.slots[key]
        for step in reversed(inner):
            step.code.captures.append(slot)
            slot = step.code.new_slot()
            step.code.capture_slots.append(slot)
            step.slots[key] = slot
        return slot


def _intrinsic_operands(node: Call, intrinsic: Intrinsic) -> Sequence[Type]:
    """Return what the operands of a typed call must be; nothing is known of an untyped one, as
    passes leave some beside typed ones.
    """
    if any(part.checked_type is None for part in (node, *node.args)):
        return ()
    return instance_types(
        intrinsic.type.arg_types, intrinsic.type.type_params, (item_of_call(node),)
    )


def _operator_code(node: Call, operator: Operator) -> OperatorCode:
    attrs = dict(with_sizes_of_zero(operator.complete_attrs(node.attrs)))
    symbolic = any(_mentions_dim(value) for value in attrs.values())
    known = all(_is_static(arg.checked_type) for arg in node.args)
    result = node.checked_type
    size = static_bytes(result) if result is not None else None
    kinds = [(index, arg.checked_type) for index, arg in enumerate(node.args)]
    sized = tuple((i, kind) for i, kind in kinds if kind is not None and has_known_dims(kind))
    return OperatorCode(operator, attrs, symbolic, not known, result, size, sized)


def _mentions_dim(value: Any) -> bool:
    return isinstance(value, DimExpr) or (
        isinstance(value, tuple) and any(_mentions_dim(v) for v in value)
    )


def _is_static(type_: Type | None) -> bool:
    if isinstance(type_, TensorType):
        return all(isinstance(dim, int) for dim in type_.shape)
    return isinstance(type_, TupleType) and all(_is_static(f) for f in type_.fields)


def static_bytes(type_: Type) -> int | None:
    """Return the bytes of tensors of a type; None if a dim is not a number."""
    if isinstance(type_, TupleType):
        sizes = [static_bytes(f) for f in type_.fields]
        return None if None in sizes else sum(size for size in sizes if size is not None)
    if not _is_static(type_):
        return None
    assert isinstance(type_, TensorType)
    size = type_.dtype.itemsize_bytes
    for dim in type_.shape:
        assert isinstance(dim, int)
        size *= dim
    return size


def has_known_dims(type_: Type) -> bool:
    """Return True if a value can be tested against a dim of `type_`."""
    seen: set[int] = set()
    waiting = [type_]
    while waiting:
        part = waiting.pop()
        if isinstance(part, TensorType):
            if any(isinstance(dim, (int, DimExpr)) for dim in part.shape):
                return True
        elif isinstance(part, TupleType) and id(part) not in seen:
            seen.add(id(part))
            waiting.extend(part.fields)
    return False


def _may_differ(value: Expr, declared: Type) -> bool:
    """Return True if only a run can tell that a value has the dims of the declared type."""
    return _flow_may_differ(value.checked_type, declared)


def _flow_may_differ(kind: Type | None, declared: Type) -> bool:
    return has_known_dims(declared) if kind is None else needs_check(kind, declared)


def array_type(value: Any) -> Type:
    """Return the exact type of arrays and tuples of them; raises TypeError for other values."""
    if isinstance(value, tuple):
        return TupleType(tuple(array_type(v) for v in value))
    if isinstance(value, np.ndarray):
        return TensorType(value.shape, dtype_of(value.dtype))
    raise TypeError(f"not a tensor: {type(value).__name__}")
