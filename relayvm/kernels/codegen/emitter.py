"""LLVM IR text of one function, and the machine through which scalar programs emit it."""

from __future__ import annotations

import operator
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from relayvm.base.dtypes import BFLOAT16, BOOL, FLOAT16, FLOAT32, FLOAT64, INT64, DType
from relayvm.kernels.scalars.value import COMPARISONS


def type_text(dtype: DType, lanes: int = 1) -> str:
    """Return the LLVM type of a value in registers; bools are `i1` there."""
    element = "i1" if dtype is BOOL else dtype.llvm
    return element if lanes == 1 else f"<{lanes} x {element}>"


def memory_type(dtype: DType, lanes: int = 1) -> str:
    """Return the LLVM type of a value in memory; bools are bytes there."""
    return dtype.llvm if lanes == 1 else f"<{lanes} x {dtype.llvm}>"


def literal(value: float, dtype: DType, lanes: int = 1) -> str:
    """Return a constant as LLVM text, in every lane."""
    text = _scalar_literal(value, dtype)
    return text if lanes == 1 else f"splat ({type_text(dtype)} {text})"


def _scalar_literal(value: float, dtype: DType) -> str:
    if dtype is BOOL:
        return "true" if value else "false"
    if dtype.is_stored:
        return str(int(dtype.array(value).view("uint8")))
    if not dtype.is_float:
        bits = int(value) & ((1 << dtype.bits) - 1)
        return str(bits)
    if dtype is BFLOAT16:
        return str(int(dtype.array(value).view("uint16")))
    if dtype is FLOAT16:
        return f"0xH{dtype.numpy.type(value).view('uint16'):04X}"
    if dtype is FLOAT32:
        value = float(dtype.numpy.type(value))
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


_PURE = (
    *("add ", "sub ", "mul ", "sdiv ", "udiv ", "srem ", "and ", "or ", "xor ", "shl ", "lshr "),
    *("ashr ", "icmp ", "fcmp ", "select ", "getelementptr ", "insertelement ", "extractelement "),
    *("shufflevector ", "zext ", "sext ", "trunc ", "bitcast ", "fptrunc ", "fpext ", "fptosi "),
    *("fptoui ", "sitofp ", "uitofp ", "fneg ", "fadd ", "fsub ", "fmul ", "fdiv "),
)


_NAME = re.compile(r"%\w+")


class _Scope:
    """What is computed where a block may not have run, by the text of its instruction.

    `before` are lines that run once before a loop: what does not change in it goes there. `true`
    are the conditions without which the block had ended.
    """

    __slots__ = ("before", "known", "true")

    def __init__(self, before: list[str] | None = None) -> None:
        self.before = before
        self.known: dict[str, str] = {}
        self.true: set[str] = set()


class Emitter:
    """Collects the instructions of one function; `block` is the label being written."""

    def __init__(self) -> None:
        self.entry: list[str] = []
        self.block = "entry"
        self.tile_bytes = 0
        # What is written, in instructions of the CPU: a vector of divisions is one for each lane.
        self.weight = 0
        # The ways to the block `trap`: from where, the status and what it tells.
        self.traps: list[tuple[str, int, str, str]] = []
        self._count = 0
        self._scopes = [_Scope()]
        # How many scopes are around the place of a name; none says 0, as of parameters.
        self._depths: dict[str, int] = {}
        self._lines: list[str] = []
        self._parts = [self._lines]

    @property
    def lines(self) -> list[str]:
        """The instructions and labels in order."""
        return [line for part in self._parts for line in part]

    def fresh(self, prefix: str = "t") -> str:
        """Return a name that nothing else in the function has, without its `%`."""
        self._count += 1
        return f"{prefix}{self._count}"

    def value(self, text: str) -> str:
        """Write an instruction and return the name of its result.

        A pure instruction whose result is at hand already is not written again: nests repeat
        index arithmetic and masks, and LLVM's time grows with what it must clean up. Scalar ones
        go before the loops in which they do not change; vectors would take registers there.
        """
        pure = text.startswith(_PURE) or ("@llvm.masked" not in text and text.startswith("call"))
        depth = len(self._scopes) - 1
        if not pure:
            return self._written(text, depth, self._lines)
        for scope in self._scopes:
            if text in scope.known:
                return scope.known[text]
        lines = self._lines
        if "<" not in text:
            fixed = self.depth(text)
            while depth > fixed and (before := self._scopes[depth].before) is not None:
                lines, depth = before, depth - 1
        name = self._scopes[depth].known[text] = self._written(text, depth, lines)
        return name

    def _written(self, text: str, depth: int, lines: list[str]) -> str:
        self.weight += 1
        name = f"%{self.fresh()}"
        lines.append(f"  {name} = {text}")
        self._depths[name] = depth
        return name

    def depth(self, text: str) -> int:
        """Return how many scopes are around the innermost of the values that a text names."""
        depths = self._depths
        return max((depths.get(name, 0) for name in _NAME.findall(text)), default=0)

    def before_loop(self) -> list[str]:
        """Return the place for what a loop that begins here needs but does not change."""
        before: list[str] = []
        self._lines = []
        self._parts += [before, self._lines]
        return before

    @contextmanager
    def scope(
        self, before: list[str] | None = None, variables: Sequence[str] = ()
    ) -> Iterator[None]:
        """Forget at the end what was computed inside: a loop or an arm may not have run.

        `variables` are the names that change in a loop with a place `before` it.
        """
        self._scopes.append(_Scope(before))
        for name in variables:
            self._depths[name] = len(self._scopes) - 1
        yield
        self._scopes.pop()

    def do(self, text: str) -> None:
        """Write an instruction without result."""
        self._lines.append(f"  {text}")

    def label(self, name: str) -> None:
        """Begin a block."""
        self._lines.append(f"{name}:")
        self.block = name

    def branch(self, label: str) -> None:
        """End the block with a jump."""
        self.do(f"br label %{label}")

    def branch_if(self, condition: str, then: str, otherwise: str) -> None:
        """End the block with a choice."""
        self.do(f"br i1 {condition}, label %{then}, label %{otherwise}")

    def expect(self, condition: str, then: str, otherwise: str) -> None:
        """End the block with a choice of which the first is usual."""
        weights = '!{!"branch_weights", i32 1048576, i32 1}'
        self.do(f"br i1 {condition}, label %{then}, label %{otherwise}, !prof {weights}")

    def trap_unless(self, condition: str, told: Callable[[], tuple[int, str, str]]) -> None:
        """Go on where a condition holds, else to the block `trap` with a status and two values,
        which are computed there.

        Nothing is written where the same was asked before: a nest checks each index it uses.
        """
        if any(condition in scope.true for scope in self._scopes):
            return
        after, miss = self.fresh("inside"), self.fresh("miss")
        self.expect(condition, after, miss)
        self.label(miss)
        with self.scope():
            self.trap(*told())
        self.label(after)
        self._scopes[-1].true.add(condition)

    def trap(self, status: int, first: str, second: str) -> None:
        """End the block, which belongs to this trap alone, with a jump to the block `trap`."""
        # Nothing is assembled, but the block stays apart: with one for two checks in a row, what
        # the trap tells would be chosen between them, in the loop.
        self.do('call void asm sideeffect "", ""()')
        self.traps.append((self.block, status, first, second))
        self.branch("trap")

    def write_trap(self) -> None:
        """Write the block to which all traps go: it leaves their values and returns the status."""
        if not self.traps:
            return
        self.label("trap")
        edges = list(zip(*self.traps))
        status, first, second = (
            self.phi(type_, *zip(map(str, values), edges[0]))
            for type_, values in zip(("i32", "i64", "i64"), edges[1:])
        )
        self.do(f"store i64 {first}, ptr %values, align 8")
        place = self.value("getelementptr i64, ptr %values, i64 1")
        self.do(f"store i64 {second}, ptr {place}, align 8")
        self.do(f"ret i32 {status}")

    def alloca(self, type_: str, align_bytes: int) -> str:
        """Return stack memory, taken in the entry block so that it can become registers."""
        name = f"%{self.fresh('a')}"
        self.entry.append(f"  {name} = alloca {type_}, align {align_bytes}")
        return name

    def phi(self, type_: str, *edges: tuple[str, str]) -> str:
        """Return the value that came along the edge taken; edges are (value, label)."""
        return self.value(f"phi {type_} " + ", ".join(f"[{v}, %{b}]" for v, b in edges))

    def splat(self, value: str, type_: str, lanes: int) -> str:
        """Return a scalar in every lane."""
        if lanes == 1:
            return value
        one = self.value(f"insertelement <{lanes} x {type_}> poison, {type_} {value}, i32 0")
        vector = f"<{lanes} x {type_}>"
        return self.value(
            f"shufflevector {vector} {one}, {vector} poison, <{lanes} x i32> zeroinitializer"
        )

    def shuffle(self, a: str, b: str, type_: str, lanes: int, picks: Sequence[int]) -> str:
        """Return the picked lanes of two vectors laid side by side."""
        vector = f"<{lanes} x {type_}>"
        mask = f"<{len(picks)} x i32> <" + ", ".join(f"i32 {p}" for p in picks) + ">"
        return self.value(f"shufflevector {vector} {a}, {vector} {b}, {mask}")


_FLOAT_INSTRUCTIONS = {
    "add": "fadd",
    "subtract": "fsub",
    "multiply": "fmul",
    "divide": "fdiv",
}
_INTEGER_INSTRUCTIONS = {
    "add": "add",
    "subtract": "sub",
    "multiply": "mul",
    "bit_and": "and",
    "bit_or": "or",
    "bit_xor": "xor",
    "shift_left": "shl",
}
_INTRINSICS = {
    "absolute": "fabs",
    "copy_sign": "copysign",
    "sqrt": "sqrt",
    "round_even": "roundeven",
    "floor": "floor",
    "ceil": "ceil",
    "truncate": "trunc",
    "fma": "fma",
}
_FLOAT_PREDICATES = {"equal": "oeq", "not_equal": "une", "less": "olt", "less_equal": "ole"}
_INTEGER_PREDICATES = {"equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le"}


def intrinsic_suffix(dtype: DType, lanes: int) -> str:
    """Return how an intrinsic's name spells a type."""
    kind = "i" if dtype.llvm.startswith("i") else "f"
    return (f"v{lanes}" if lanes > 1 else "") + f"{kind}{max(8, dtype.bits)}"


# Lanes are divided one by one: taken out, divided and put in.
_DIVISION_WEIGHT = 4


class LlvmMachine:
    """The machine whose values are operands in LLVM IR text, all with the same number of lanes."""

    def __init__(self, emitter: Emitter, lanes: int) -> None:
        self.emitter = emitter
        self.lanes = lanes

    def constant(self, value: float, dtype: DType) -> str:
        return literal(value, dtype, self.lanes)

    def apply(self, name: str, dtype: DType, operands: Sequence[Any]) -> str:
        type_ = type_text(dtype, self.lanes)
        if dtype is BOOL and "false" in operands and name in ("bit_or", "bit_and"):
            return _other(operands, "false") if name == "bit_or" else "false"
        if dtype is BOOL and "true" in operands and name == "bit_and":
            return _other(operands, "true")
        if self.lanes == 1 and dtype is INT64:
            folded = _fold_index(name, operands)
            if folded is not None:
                return folded
        if name in COMPARISONS:
            return self._compare(name, dtype, operands)
        if name == "negative":
            return self.emitter.value(f"fneg {type_} {operands[0]}")
        if name in _INTRINSICS:
            arguments = ", ".join(f"{type_} {o}" for o in operands)
            suffix = intrinsic_suffix(dtype, self.lanes)
            return self.emitter.value(
                f"call {type_} @llvm.{_INTRINSICS[name]}.{suffix}({arguments})"
            )
        if name == "quotient":
            instruction = "sdiv" if dtype.is_signed else "udiv"
            self.emitter.weight += _DIVISION_WEIGHT * (self.lanes - 1)
        elif name == "shift_right":
            instruction = "ashr" if dtype.is_signed else "lshr"
        else:
            table = _FLOAT_INSTRUCTIONS if dtype.is_float else _INTEGER_INSTRUCTIONS
            instruction = table[name]
        return self.emitter.value(f"{instruction} {type_} {operands[0]}, {operands[1]}")

    def _compare(self, name: str, dtype: DType, operands: Sequence[Any]) -> str:
        if dtype.is_float:
            instruction = f"fcmp {_FLOAT_PREDICATES[name]}"
        else:
            predicate = _INTEGER_PREDICATES[name]
            if name in ("less", "less_equal"):
                predicate = ("s" if dtype.is_signed else "u") + predicate
            instruction = f"icmp {predicate}"
        type_ = type_text(dtype, self.lanes)
        return self.emitter.value(f"{instruction} {type_} {operands[0]}, {operands[1]}")

    def choose(self, condition: str, a: str, b: str, dtype: DType) -> str:
        """Return `a` where the condition holds, else `b`."""
        if condition in ("true", "false"):
            return a if condition == "true" else b
        type_, flags = type_text(dtype, self.lanes), type_text(BOOL, self.lanes)
        return self.emitter.value(f"select {flags} {condition}, {type_} {a}, {type_} {b}")

    def bitcast(self, raw: Any, source: DType, target: DType) -> str:
        a, b = type_text(source, self.lanes), type_text(target, self.lanes)
        return self.emitter.value(f"bitcast {a} {raw} to {b}")

    def convert(self, raw: Any, source: DType, target: DType) -> str:
        instruction = _conversion(source, target)
        if not instruction:
            return str(raw)
        a, b = type_text(source, self.lanes), type_text(target, self.lanes)
        return self.emitter.value(f"{instruction} {a} {raw} to {b}")

    def repeat(
        self,
        condition: Callable[[Sequence[Any]], Any],
        body: Callable[[Sequence[Any]], Sequence[Any]],
        state: Sequence[Any],
        dtypes: Sequence[DType],
    ) -> list[str]:
        """Emit a loop around the state; see `Machine.repeat`."""
        e = self.emitter
        types = [type_text(d, self.lanes) for d in dtypes]
        head, inside, after = e.fresh("head"), e.fresh("body"), e.fresh("done")
        slots = [e.alloca(t, 64) for t in types]
        for slot, type_, raw in zip(slots, types, state):
            e.do(f"store {type_} {raw}, ptr {slot}")
        e.branch(head)
        e.label(head)
        current = [e.value(f"load {t}, ptr {s}") for t, s in zip(types, slots)]
        with e.scope():
            e.branch_if(self._any(condition(current)), inside, after)
            e.label(inside)
            for slot, type_, raw in zip(slots, types, body(current)):
                e.do(f"store {type_} {raw}, ptr {slot}")
        e.branch(head)
        e.label(after)
        return current

    def when_any(
        self,
        condition: str,
        program: Callable[[], Sequence[Any]],
        otherwise: Sequence[Any],
        dtypes: Sequence[DType],
    ) -> list[str]:
        """Emit a program behind a branch; see `Machine.when_any`."""
        e = self.emitter
        flag = self._any(condition)
        before, inside, after = e.block, e.fresh("rare"), e.fresh("done")
        e.branch_if(flag, inside, after)
        e.label(inside)
        with e.scope():
            results = program()
        last = e.block
        e.branch(after)
        e.label(after)
        types = [type_text(d, self.lanes) for d in dtypes]
        edges = zip(types, results, otherwise)
        return [e.phi(t, (rare, last), (usual, before)) for t, rare, usual in edges]

    def _any(self, flags: str) -> str:
        if self.lanes == 1:
            return flags
        vector = f"<{self.lanes} x i1> {flags}"
        return self.emitter.value(f"call i1 @llvm.vector.reduce.or.v{self.lanes}i1({vector})")


def _other(operands: Sequence[str], one: str) -> str:
    return operands[1] if operands[0] == one else operands[0]


def _number(operand: str) -> int | None:
    """Return the value of an int64 literal, signed."""
    if not operand.isdigit():
        return None
    value = int(operand)
    return value - (1 << 64) if value >> 63 else value


def _fold_index(name: str, operands: Sequence[str]) -> str | None:
    """Return the result of int64 arithmetic where literals give it, as in most indices."""
    if len(operands) != 2:
        return None
    (x, y), (a, b) = operands, map(_number, operands)
    if a is not None and b is not None and name in _FOLDED:
        result = _FOLDED[name](a, b)
        if isinstance(result, bool):
            return "true" if result else "false"
        return literal(result, INT64)
    if b == 0 and name in ("add", "subtract"):
        return x
    if a == 0 and name == "add":
        return y
    if name == "multiply" and 0 in (a, b):
        return "0"
    if name == "multiply" and 1 in (a, b):
        return x if b == 1 else y
    return None


_FOLDED: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
}


def _conversion(source: DType, target: DType) -> str:
    """Return the instruction that converts, or nothing where the bits stay."""
    if source.is_float and target.is_float:
        assert {source, target} in ({FLOAT16, FLOAT32}, {FLOAT32, FLOAT64}), (source, target)
        return "fpext" if target.bits > source.bits else "fptrunc"
    if source.is_float:
        return "fptosi" if target.is_signed else "fptoui"
    if target.is_float:
        return "sitofp" if source.is_signed else "uitofp"
    if target.bits > source.bits:
        return "sext" if source.is_signed else "zext"
    return "trunc" if target.bits < source.bits else ""
