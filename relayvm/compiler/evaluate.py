"""The evaluator: what a Relay program means, in Python and numpy. The oracle of the compiler; never
fast.

Runs typed and untyped modules. Neither deep recursion nor long loops touch Python's stack; tail
calls take no space.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from relayvm.base.abi import named_trap
from relayvm.base.diagnostics import Diagnostic, InternalError, Trap, error
from relayvm.base.dims import (
    AnyDim,
    Dim,
    DimExpr,
    DimVar,
    dim_substitute,
    dim_value,
    dim_variables,
    told_size,
)
from relayvm.base.shapes import ShapeError
from relayvm.base.source import Span
from relayvm.compiler.evaluate_arrays import ARRAY_MEANINGS
from relayvm.compiler.evaluate_code import (
    CALL,
    CHECK,
    CHOOSE,
    CLOSURE,
    CONSTRUCT,
    DIMS_SLOT,
    FIELD,
    INTRINSIC,
    LEAVE,
    MATCH,
    OPERATOR,
    REF_NEW,
    REF_READ,
    REF_WRITE,
    RETURN,
    TAIL_CALL,
    TAKE_FIELD,
    TEST,
    TUPLE,
    Code,
    GlobalName,
    Instruction,
    OperatorCode,
    array_type,
    static_bytes,
    translate,
)
from relayvm.compiler.host.arguments import ArgumentTypes, bound
from relayvm.compiler.host.values import DataValue, Reference
from relayvm.ir.expr import Call, Constructor, Expr, Function
from relayvm.ir.module import Module
from relayvm.ir.types import TensorType, TupleType, Type, TypeParam
from relayvm.ir.visit import substitute_in_type
from relayvm.ops.operator import Operator


@dataclass(slots=True, eq=False)
class Closure:
    """A function value: its code, the values it captured, and the sizes known where it was made."""

    evaluator: Evaluator
    code: Code
    captured: tuple[Any, ...] = ()
    dims: Mapping[DimVar, int] | None = None

    def __call__(self, *args: Any) -> Any:
        values = self.evaluator.arguments(self.code.name, self.code.function, args)
        return self.evaluator.apply(self, values)

    def __repr__(self) -> str:
        return f"<closure made in @{self.code.name}>"


class BudgetExceeded(Exception):
    """The evaluator did more work than it was allowed."""


# What a call or an operator costs beside its elements: dispatch is that dear in Python.
STEP_OPERATIONS = 16


@dataclass(slots=True)
class Budget:
    """How much an evaluator may do: operations on elements, and bytes of one result."""

    operations: int | None = None
    result_bytes: int | None = None

    def spend(self, operations: int) -> None:
        """Take from the budget; raises BudgetExceeded when it is used up."""
        if self.operations is None:
            return
        self.operations -= operations
        if self.operations < 0:
            raise BudgetExceeded


@dataclass(slots=True)
class Evaluator:
    """Runs the functions of a module. `budget` limits all its calls together."""

    module: Module
    budget: Budget = field(default_factory=Budget)
    max_depth: int = 10_000_000
    _codes: dict[str, Code] = field(default_factory=dict)
    _types: ArgumentTypes | None = None

    def call(self, name: str, args: Sequence[Any] = ()) -> Any:
        """Return the result of a global function; arguments are arrays, numbers, tuples and data
        values.

        Raises RelayError `wrong-argument` for what the machine would not take.
        """
        values = self.arguments(name, self.module[name], args)
        return self.apply(Closure(self, self.code_of(name)), values)

    def arguments(self, name: str, function: Function, args: Sequence[Any]) -> list[Any]:
        """Return arguments of a function as its values; raises RelayError `wrong-argument`."""
        if self._types is None:
            self._types = ArgumentTypes(self.module)
        return bound(
            self._types, name, function.params, args, _fits_function, self._type_of_function
        )

    def _type_of_function(self, value: Any) -> Type | None:
        """Return the type of a function value, with the sizes known where it was made."""
        if isinstance(value, GlobalName):
            return self.module[value.name].checked_type
        if not isinstance(value, Closure) or value.code.function.checked_type is None:
            return None
        sizes: dict[TypeParam, Type | Dim] = {}
        sizes.update((value.dims or {}).items())
        return substitute_in_type(value.code.function.checked_type, sizes)

    def evaluate(self, expr: Expr) -> Any:
        """Return the value of a closed expression."""
        return self.apply(Closure(self, translate("<expression>", Function((), expr))), ())

    def apply(self, closure: Any, args: Sequence[Any]) -> Any:
        """Return the result of a function value."""
        with np.errstate(all="ignore"):
            return _Run(self).run(closure, args)

    def code_of(self, name: str) -> Code:
        """Return the code of a global function, translated once."""
        if name not in self._codes:
            self._codes[name] = translate(name, self.module[name], self.module)
        return self._codes[name]


def _fits_function(value: Any, num_params: int) -> bool:
    if isinstance(value, Closure):
        return len(value.code.params) == num_params
    return isinstance(value, (GlobalName, Constructor, Operator))


Handler = Callable[["_Run", Instruction], None]


class _Run:
    """One run: the current frame, block and place in it, the blocks left open, and the frames of
    the callers.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self.budget = evaluator.budget
        self.row: list[Any] = []
        self.code: Code | None = None
        self.block: list[Instruction] = []
        self.place = 0
        self.blocks: list[tuple[list[Instruction], int]] = []
        self.frames: list[tuple[list[Any], Code, list[Instruction], int, int]] = []
        self.result: Any = None
        self.finished = False

    def run(self, closure: Any, args: Sequence[Any]) -> Any:
        if not isinstance(closure, Closure):
            raise TypeError(f"not a function: {closure!r}")
        self.enter(closure, args, None)
        handlers = _HANDLERS
        while not self.finished:
            instruction = self.block[self.place]
            self.place += 1
            handlers[instruction[0]](self, instruction)
        return self.result

    # -- Calls ------------------------------------------------------------------------------------

    def enter(self, closure: Closure, args: Sequence[Any], span: Span | None) -> None:
        """Make a frame for the function, bind its parameters and test them against what is
        declared.
        """
        code = closure.code
        if len(args) != len(code.params):
            raise InternalError(f"@{code.name} takes {len(code.params)} arguments, got {len(args)}")
        self.budget.spend(STEP_OPERATIONS)
        row = code.row.copy()
        for slot, arg in zip(code.params, args):
            row[slot] = arg
        for slot, value in zip(code.capture_slots, closure.captured):
            row[slot] = value
        if code.self_slot >= 0:
            row[code.self_slot] = closure
        row[DIMS_SLOT] = closure.dims
        self.row, self.code, self.block, self.place = row, code, code.body, 0
        if code.binds_dims:
            row[DIMS_SLOT] = dims = dict(closure.dims or {})
            for slot, declared, _ in code.checks:
                _bind_sizes(row[slot], declared, dims)
            for slot, declared, name in code.checks:
                self.check(row[slot], declared, f"parameter `%{name}`", span, dims)

    def call(self, instruction: Instruction) -> None:
        _, result, callee, arg_slots, node = instruction
        row = self.row
        function = self.callee(row[callee], [row[s] for s in arg_slots])
        if not isinstance(function, Closure):
            row[result] = function
            return
        if len(self.frames) >= self.evaluator.max_depth:
            raise self.trap("out-of-depth", "the call stack is too deep", node.span)
        assert self.code is not None
        self.frames.append((row, self.code, self.block, self.place, result))
        self.enter(function, [row[s] for s in arg_slots], node.span)

    def tail_call(self, instruction: Instruction) -> None:
        _, callee, arg_slots, node = instruction
        row = self.row
        args = [row[s] for s in arg_slots]
        function = self.callee(row[callee], args)
        if isinstance(function, Closure):
            self.enter(function, args, node.span)
        else:
            self.leave_function(function)

    def callee(self, value: Any, args: list[Any]) -> Any:
        """Return the closure to enter, or the result where the callee is no code (a constructor, an
        operator).
        """
        if isinstance(value, Closure):
            return value
        if isinstance(value, GlobalName):
            return Closure(self.evaluator, self.evaluator.code_of(value.name))
        if isinstance(value, Constructor):
            return DataValue(value.name, value.belong_to.name, value.index, tuple(args))
        if isinstance(value, Operator):
            return value.evaluate(args, {})
        raise InternalError(f"called a value that is no function: {value!r}")

    def return_(self, instruction: Instruction) -> None:
        self.leave_function(self.row[instruction[1]])

    def leave_function(self, value: Any) -> None:
        if isinstance(value, GlobalName):
            value = Closure(self.evaluator, self.evaluator.code_of(value.name))
        if not self.frames:
            self.result = value
            self.finished = True
            return
        self.row, self.code, self.block, self.place, result = self.frames.pop()
        self.row[result] = value

    def closure(self, instruction: Instruction) -> None:
        _, result, code = instruction
        row = self.row
        captured = tuple([row[s] for s in code.captures])
        row[result] = Closure(self.evaluator, code, captured, row[DIMS_SLOT])

    # -- Blocks -----------------------------------------------------------------------------------

    def choose(self, instruction: Instruction) -> None:
        _, condition, true_arm, false_arm, returns_here = instruction
        self.open(true_arm if self.row[condition] else false_arm, returns_here)

    def open(self, block: list[Instruction], returns_here: bool) -> None:
        if returns_here:
            self.blocks.append((self.block, self.place))
        self.block, self.place = block, 0

    def leave(self, instruction: Instruction) -> None:
        self.row[instruction[1]] = self.row[instruction[2]]
        self.block, self.place = self.blocks.pop()

    def match(self, instruction: Instruction) -> None:
        _, cases, returns_here, node = instruction
        for steps, arm in cases:
            if self.fits(steps):
                self.open(arm, returns_here)
                return
        raise self.trap("match-failed", "no clause of the match fits the value", node.span)

    def fits(self, steps: list[tuple[int, int, int, int]]) -> bool:
        row = self.row
        for what, destination, source, number in steps:
            if what == TEST:
                if row[source].tag != number:
                    return False
            elif what == TAKE_FIELD:
                row[destination] = row[source].fields[number]
            else:
                row[destination] = row[source][number]
        return True

    # -- Values -----------------------------------------------------------------------------------

    def construct(self, instruction: Instruction) -> None:
        _, result, constructor, slots = instruction
        row = self.row
        fields = tuple([row[s] for s in slots])
        name = constructor.belong_to.name
        row[result] = DataValue(constructor.name, name, constructor.index, fields)

    def make_tuple(self, instruction: Instruction) -> None:
        row = self.row
        row[instruction[1]] = tuple([row[s] for s in instruction[2]])

    def take_field(self, instruction: Instruction) -> None:
        row = self.row
        row[instruction[1]] = row[instruction[2]][instruction[3]]

    def ref_new(self, instruction: Instruction) -> None:
        self.row[instruction[1]] = Reference(self.row[instruction[2]])

    def ref_read(self, instruction: Instruction) -> None:
        self.row[instruction[1]] = self.row[instruction[2]].value

    def ref_write(self, instruction: Instruction) -> None:
        _, result, reference, value = instruction
        self.row[reference].value = self.row[value]
        self.row[result] = ()

    def intrinsic(self, instruction: Instruction) -> None:
        _, result, name, slots, node = instruction
        args = [self.row[s] for s in slots]
        self.budget.spend(STEP_OPERATIONS + (len(args[0]) if isinstance(args[0], list) else 1))
        try:
            self.row[result] = ARRAY_MEANINGS[name](*args)
        except IndexError as reason:
            raise self.trap("index-out-of-range", f"`{name}`: {reason}", node.span) from None
        except OverflowError as reason:
            raise self.trap("size-overflow", str(reason), node.span) from None

    def operator(self, instruction: Instruction) -> None:
        _, result, code, slots, node = instruction
        row = self.row
        args = [row[s] for s in slots]
        attrs = code.attrs
        if code.symbolic:
            attrs = {
                name: _with_dims(v, row[DIMS_SLOT] or {}, node.span) for name, v in attrs.items()
            }
        self.afford(node, code, args, attrs)
        try:
            if code.checked:
                self.check_rule(code, args, attrs, node)
            value = code.operator.meaning(args, attrs)
        except ShapeError as reason:
            code_of_trap = "bad-value" if reason.code == "bad-value" else "run-time-shape"
            message = named_trap(code.operator.name, reason.message)
            raise self.trap(code_of_trap, message, node.span) from None
        except IndexError as reason:
            message = named_trap(code.operator.name, str(reason))
            raise self.trap("index-out-of-range", message, node.span) from None
        except MemoryError:
            raise self.trap("out-of-memory", "a tensor is too large", node.span) from None
        row[result] = (
            tuple(map(np.asarray, value)) if isinstance(value, tuple) else np.asarray(value)
        )
        self.budget.spend(_elements(row[result]))

    def afford(
        self, node: Call, code: OperatorCode, args: list[Any], attrs: dict[str, Any]
    ) -> None:
        """Refuse work beyond the budget before it is done."""
        budget = self.budget
        if budget.operations is None and budget.result_bytes is None:
            return
        budget.spend(STEP_OPERATIONS + sum(_elements(a) for a in args))
        size = code.result_bytes
        if size is None and not code.operator.is_data_dependent:
            size = static_bytes(code.operator.rule(*map(array_type, args), **attrs))
        if size is not None and budget.result_bytes is not None and size > budget.result_bytes:
            raise BudgetExceeded

    def check_rule(
        self, code: OperatorCode, args: list[Any], attrs: dict[str, Any], node: Call
    ) -> None:
        """Run the shape rule on what is really there, as compiled code does with its checks."""
        self.check_operands(code, args, node)
        exact = code.operator.result_type([array_type(a) for a in args], attrs)
        if code.operator.is_data_dependent:
            return
        promised = code.result
        if isinstance(promised, TensorType) and isinstance(exact, TensorType):
            for axis, (known, real) in enumerate(zip(promised.shape, exact.shape)):
                if isinstance(known, int) and known != real:
                    message = f"axis {axis} of the result is {real}, declared {known}"
                    raise self.trap("run-time-shape", message, node.span)

    def check_operands(self, code: OperatorCode, args: list[Any], node: Call) -> None:
        """Trap unless sizes of one name in the types of operands are one size in their values: what
        data, arrays, references and functions give was never compared with its type.
        """
        dims: dict[DimVar, int] = {}
        for index, declared in code.sized:
            _bind_sizes(args[index], declared, dims)
        for index, declared in code.sized:
            what = f"operand {index} of `{code.operator.name}`"
            self.check(args[index], declared, what, node.span, dims)

    # -- Checks -----------------------------------------------------------------------------------

    def check_slot(self, instruction: Instruction) -> None:
        _, slot, declared, what, span = instruction
        self.check(self.row[slot], declared, what, span, self.row[DIMS_SLOT])

    def check(self, value: Any, declared: Type, what: str, span: Span | None, dims: Any) -> None:
        """Trap unless a value has the declared dims, as far as they are known."""
        for part, type_ in _tensors(value, declared):
            self._check_tensor(part, type_, what, span, dims)

    def _check_tensor(
        self, value: np.ndarray, declared: TensorType, what: str, span: Span | None, dims: Any
    ) -> None:
        for axis, (dim, size) in enumerate(zip(declared.shape, value.shape)):
            expected = _known_size(dim, dims)
            if expected is not None and expected != size:
                message = f"axis {axis} of {what} is {size}, declared {dim}"
                if isinstance(dim, DimExpr):
                    message += f" (= {expected})"
                raise self.trap("run-time-shape", message, span)

    def trap(self, code: str, message: str, span: Span | None) -> Trap:
        frames = [f"@{self.code.name} ({span})" if self.code else ""]
        for _, caller, block, place, _ in reversed(self.frames[-49:]):
            node = block[place - 1][-1]
            frames.append(f"@{caller.name} ({getattr(node, 'span', None)})")
        return Trap(Diagnostic(code, message, span), tuple(frames))


def _tensors(value: Any, declared: Type) -> Iterator[tuple[np.ndarray, TensorType]]:
    """Yield the tensors of a value, also those in tuples, each with what is declared of it."""
    waiting = [(value, declared)]
    while waiting:
        part, type_ = waiting.pop()
        if isinstance(type_, TupleType):
            waiting.extend(reversed(tuple(zip(part, type_.fields))))
        elif isinstance(type_, TensorType) and isinstance(part, np.ndarray):
            yield part, type_


def _bind_sizes(value: Any, declared: Type, dims: dict[DimVar, int]) -> None:
    """Bind each variable that an axis of a parameter tells: where it stands alone, else where it
    has a factor or another number beside it.
    """
    solved: dict[DimVar, int] = {}
    for part, type_ in _tensors(value, declared):
        for dim, size in zip(type_.shape, part.shape):
            told = told_size(dim, size)
            if told is not None:
                variable, found, alone = told
                (dims if alone else solved).setdefault(variable, found)
    for variable, size in solved.items():
        dims.setdefault(variable, size)


def _known_size(dim: Dim, dims: dict[DimVar, int] | None) -> int | None:
    """Return the size that `dim` demands; None if it demands nothing."""
    if isinstance(dim, AnyDim) or (isinstance(dim, DimExpr) and dims is None):
        return None
    if isinstance(dim, int):
        return dim
    assert dims is not None
    try:
        return dim_value(dim, dims)
    except (KeyError, ValueError):
        return None


def _with_dims(value: Any, dims: Mapping[DimVar, int], span: Span | None) -> Any:
    """Return an attribute with numbers for sizes; raises RelayError `unreadable-dim` where a size
    has none.
    """
    if isinstance(value, tuple):
        return tuple(_with_dims(v, dims, span) for v in value)
    if not isinstance(value, DimExpr):
        return value
    exact = dim_substitute(value, dims)
    if isinstance(exact, DimExpr):
        (name, *_) = (v.name for v in dim_variables(exact))
        message = f"the size `{name}` is needed, but no tensor parameter has it as an axis"
        raise error("unreadable-dim", message, span)
    return exact


def _elements(value: Any) -> int:
    if isinstance(value, tuple):
        return sum(_elements(v) for v in value)
    return value.size if isinstance(value, np.ndarray) else 1


_HANDLERS: dict[int, Handler] = {
    OPERATOR: _Run.operator,
    CALL: _Run.call,
    TAIL_CALL: _Run.tail_call,
    RETURN: _Run.return_,
    CHOOSE: _Run.choose,
    LEAVE: _Run.leave,
    MATCH: _Run.match,
    CONSTRUCT: _Run.construct,
    TUPLE: _Run.make_tuple,
    FIELD: _Run.take_field,
    CLOSURE: _Run.closure,
    CHECK: _Run.check_slot,
    REF_NEW: _Run.ref_new,
    REF_READ: _Run.ref_read,
    REF_WRITE: _Run.ref_write,
    INTRINSIC: _Run.intrinsic,
}
