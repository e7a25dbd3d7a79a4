"""One kernel's nest as LLVM IR text: a phase becomes an exported entry and a body with plain
parameters.

The entry unpacks the argument array; the body gets each pointer as a parameter so that `noalias`
can be said of it. Vectors, product order and unrolling are the nest's; LLVM keeps them, as no
fast-math flag allows it otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from relayvm.base.abi import ALIGN_BYTES, TEXT_SYMBOL, Access, TrapCode
from relayvm.base.diagnostics import assert_never
from relayvm.base.dtypes import INT64
from relayvm.base.native.cpu import Cpu
from relayvm.kernels.codegen.emitter import (
    Emitter,
    LlvmMachine,
    intrinsic_suffix,
    memory_type,
    type_text,
)
from relayvm.kernels.codegen.expression import ExpressionEmitter, element_pointer
from relayvm.kernels.codegen.outlining import Outlined
from relayvm.kernels.loops import (
    Buffer,
    Const,
    Declare,
    Expr,
    For,
    If,
    Let,
    Nest,
    Phase,
    Prefetch,
    Stmt,
    Store,
    TileStore,
)

# LLVM's time for the function around it grows faster than its size.
_MOST_INLINED_LINES = 400
# They would stay on the stack through all that is called from where a kernel is inlined.
_MOST_TILE_BYTES = 1024


def nest_functions(
    nest: Nest, symbol: str, in_place: tuple[tuple[int, int], ...], cpu: Cpu | None = None
) -> str:
    """Return the LLVM functions of a nest; phase p is exported as `symbol.p`.

    Instructions of a CPU's own are used where it is given.
    """
    shared = {index for pair in in_place for index in pair}
    outlined = Outlined(symbol)
    phases = [
        _PhaseFunction(nest, phase, f"{symbol}.{number}", shared, cpu, outlined).text()
        for number, phase in enumerate(nest.phases)
    ]
    return "\n".join([*phases, *outlined.texts.values()])


def inlined_function(nest: Nest, in_place: tuple[tuple[int, int], ...], cpu: Cpu) -> str | None:
    """Return the body of a nest as a function `TEXT_SYMBOL`, which takes the places of operands,
    `dims`, begin and end of the phase, `scratch` and `values`; None where that is no small
    function.

    It is what `nest_functions` compiles, so that it computes the same wherever it is inlined.
    """
    if len(nest.phases) != 1 or nest.dims or nest.scratch or nest.private:
        return None
    shared = {index for pair in in_place for index in pair}
    function = _PhaseFunction(nest, nest.phases[0], TEXT_SYMBOL[1:], shared, cpu)
    text = function.body()
    if text.count("\n") > _MOST_INLINED_LINES or function.emitter.tile_bytes > _MOST_TILE_BYTES:
        return None
    return text.replace(f"{TEXT_SYMBOL}.body(", f"{TEXT_SYMBOL}(", 1)


@dataclass(eq=False)
class _PhaseFunction:
    """Builds the two functions of one phase."""

    nest: Nest
    phase: Phase
    symbol: str
    shared: set[int]
    cpu: Cpu | None
    outlined: Outlined | None = None
    emitter: Emitter = field(default_factory=Emitter)

    def text(self) -> str:
        return self._entry() + self.body()

    def _entry(self) -> str:
        e = Emitter()
        arguments = []
        for number in range(len(self.nest.operands)):
            slot = e.value(f"getelementptr ptr, ptr %args, i64 {number}")
            arguments.append(f"ptr {e.value(f'load ptr, ptr {slot}, align 8')}")
        arguments += ["ptr %dims", "i64 %begin", "i64 %end", "ptr %scratch", "ptr %values"]
        if self.nest.private:
            slot = e.value(f"getelementptr ptr, ptr %args, i64 {len(self.nest.operands)}")
            arguments.append(f"ptr {e.value(f'load ptr, ptr {slot}, align 8')}")
        result = e.value(f"call i32 @{self.symbol}.body({', '.join(arguments)})")
        e.do(f"ret i32 {result}")
        head = "ptr %args, ptr %dims, i64 %begin, i64 %end, ptr %scratch, ptr %values"
        return "\n".join([f"define i32 @{self.symbol}({head}) #0 {{", *e.lines, "}", ""])

    def _parameter(self, number: int, buffer: Buffer) -> str:
        words = ["ptr"]
        if number not in self.shared:
            words.append("noalias")
        if buffer.role == "input":
            words.append("readonly")
        return " ".join([*words, f"%op{number}"])

    def body(self) -> str:
        """Return the function with plain parameters."""
        e = self.emitter
        parameters = [self._parameter(n, b) for n, b in enumerate(self.nest.operands)]
        parameters += ["ptr noalias readonly %dims", "i64 %begin", "i64 %end"]
        parameters.append(f"ptr noalias align {ALIGN_BYTES} %scratch")
        parameters.append("ptr noalias %values")
        if self.nest.private:
            parameters.append(f"ptr noalias align {ALIGN_BYTES} %private")
        expressions = ExpressionEmitter(e, self.cpu, self.outlined)
        self._bind(expressions)
        statements = StatementEmitter(e, expressions)
        variable = self.phase.var
        statements.loop(variable.name, "%begin", "%end", 1, self.phase.body)
        e.do(f"ret i32 {int(TrapCode.NONE)}")
        e.write_trap()
        head = f"define internal i32 @{self.symbol}.body({', '.join(parameters)}) #0 {{"
        return "\n".join([head, "entry:", *e.entry, *e.lines, "}", ""])

    def _bind(self, expressions: ExpressionEmitter) -> None:
        """Give the expressions their dims, operand pointers, strides and own buffers."""
        e = self.emitter

        def word(number: int) -> str:
            slot = e.value(f"getelementptr i64, ptr %dims, i64 {number}")
            return e.value(f"load i64, ptr {slot}, align 8")

        for number, name in enumerate(self.nest.dims):
            expressions.dims[name] = word(number)
        position = len(self.nest.dims)
        for number, buffer in enumerate(self.nest.operands):
            expressions.pointers[buffer.name] = f"%op{number}"
            if buffer.access is Access.STRIDED:
                rank = len(buffer.shape)
                strides = [word(position + axis) for axis in range(rank)]
                expressions.strides[buffer.name] = strides
                position += rank
        for memory, buffers in (("scratch", self.nest.scratch), ("private", self.nest.private)):
            offset = "0"
            for buffer in buffers:
                pointer = e.value(f"getelementptr i8, ptr %{memory}, i64 {offset}")
                expressions.pointers[buffer.name] = pointer
                offset = self._end(expressions, buffer, offset)

    def _end(self, expressions: ExpressionEmitter, buffer: Buffer, offset: str) -> str:
        e = self.emitter
        size = str(buffer.dtype.itemsize_bytes)
        for extent in buffer.shape:
            size = e.value(f"mul i64 {size}, {expressions.emit(extent)}")
        padded = e.value(f"add i64 {size}, {ALIGN_BYTES - 1}")
        rounded = e.value(f"and i64 {padded}, {-ALIGN_BYTES}")
        return e.value(f"add i64 {offset}, {rounded}")


@dataclass(eq=False)
class StatementEmitter:
    """Writes statements; names bound by loops and `let` live in the expression emitter."""

    emitter: Emitter
    expressions: ExpressionEmitter

    def block(self, statements: tuple[Stmt, ...]) -> None:
        """Write statements in order."""
        for statement in statements:
            self.statement(statement)

    def statement(self, statement: Stmt) -> None:
        """Write one statement."""
        match statement:
            case For():
                self._for(statement)
            case If():
                self._if(statement)
            case Store():
                self._store(statement)
            case Prefetch():
                self._prefetch(statement)
            case TileStore():
                self._tile_store(statement)
            case Let():
                self.expressions.names[statement.var.name] = self.expressions.emit(statement.value)
            case Declare():
                tile = statement.tile
                type_ = f"[{tile.size} x {memory_type(tile.dtype, tile.lanes)}]"
                pointer = self.emitter.alloca(type_, ALIGN_BYTES)
                self.emitter.tile_bytes += tile.size * tile.lanes * tile.dtype.itemsize_bytes
                self.expressions.tiles[tile.name] = pointer
            case _:
                assert_never(statement)

    def _for(self, loop: For) -> None:
        begin, end = self.expressions.emit(loop.begin), self.expressions.emit(loop.end)
        if loop.kind == "unroll":
            assert isinstance(loop.begin, Const) and isinstance(loop.end, Const), loop.var.name
            for value in range(int(loop.begin.value), int(loop.end.value), loop.step):
                self.expressions.names[loop.var.name] = str(value)
                self.block(loop.body)
            return
        self.loop(loop.var.name, begin, end, loop.step, loop.body, loop.condition)

    def loop(
        self,
        name: str,
        begin: str,
        end: str,
        step: int,
        body: tuple[Stmt, ...],
        condition: Expr | None = None,
    ) -> None:
        """Write a counted loop, which ends early where the condition does not hold."""
        e = self.emitter
        inside, latch, after = (e.fresh(p) for p in ("body", "latch", "done"))
        variable, following = f"%{e.fresh('i')}", f"%{e.fresh('n')}"
        # The condition is at the end, as LLVM wants loops; before them it is asked once more.
        runs = LlvmMachine(e, 1).apply("less", INT64, (begin, end))
        invariant = e.before_loop()
        before = e.block
        e.branch_if(runs, inside, after)
        e.label(inside)
        e.do(f"{variable} = phi i64 [{begin}, %{before}], [{following}, %{latch}]")
        self.expressions.names[name] = variable
        with e.scope(invariant, (variable,)):
            if condition is not None:
                goes_on = e.fresh("on")
                e.branch_if(self.expressions.emit(condition), goes_on, after)
                e.label(goes_on)
            self.block(body)
        e.branch(latch)
        e.label(latch)
        e.do(f"{following} = add nsw i64 {variable}, {step}")
        again = e.fresh()
        e.do(f"%{again} = icmp slt i64 {following}, {end}")
        e.branch_if(f"%{again}", inside, after)
        e.label(after)

    def _if(self, statement: If) -> None:
        e = self.emitter
        then, otherwise, after = (e.fresh(p) for p in ("then", "else", "done"))
        condition = self.expressions.emit(statement.condition)
        e.branch_if(condition, then, otherwise if statement.otherwise else after)
        e.label(then)
        with e.scope():
            self.block(statement.then)
        e.branch(after)
        if statement.otherwise:
            e.label(otherwise)
            with e.scope():
                self.block(statement.otherwise)
            e.branch(after)
        e.label(after)

    def _in_memory(self, value: Expr, text: str) -> str:
        """Return a value as it is stored: bools as bytes."""
        if not value.dtype.is_bool:
            return text
        source = type_text(value.dtype, value.lanes)
        target = memory_type(value.dtype, value.lanes)
        return self.emitter.value(f"zext {source} {text} to {target}")

    def _prefetch(self, prefetch: Prefetch) -> None:
        """Fetch to the second-level cache: the first has no room for what is not used at once."""
        pointer = element_pointer(self.expressions, prefetch.buffer, prefetch.indices)
        self.emitter.do(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 0, i32 2, i32 1)")

    def _tile_store(self, store: TileStore) -> None:
        tile = store.tile
        value = self._in_memory(store.value, self.expressions.emit(store.value))
        type_ = memory_type(tile.dtype, tile.lanes)
        pointer = self.expressions.tile_pointer(tile, store.index)
        self.emitter.do(f"store {type_} {value}, ptr {pointer}")

    def _store(self, store: Store) -> None:
        e, buffer, lanes = self.emitter, store.buffer, store.value.lanes
        text = self.expressions.emit(store.value)
        pointer = element_pointer(self.expressions, buffer, store.indices)
        if buffer.access is Access.SCALAR:
            e.do(f"store i64 {self._slot(store.value, text)}, ptr {pointer}, align 8")
            return
        value = self._in_memory(store.value, text)
        type_ = memory_type(buffer.dtype, lanes)
        align = buffer.dtype.itemsize_bytes
        if store.mask is None:
            e.do(f"store {type_} {value}, ptr {pointer}, align {align}")
            return
        mask = self.expressions.emit(store.mask)
        if lanes > 1:
            kind = intrinsic_suffix(buffer.dtype, lanes)
            e.do(
                f"call void @llvm.masked.store.{kind}.p0({type_} {value}, "
                f"ptr align {align} {pointer}, <{lanes} x i1> {mask})"
            )
            return
        then, after = e.fresh("then"), e.fresh("done")
        e.branch_if(mask, then, after)
        e.label(then)
        e.do(f"store {type_} {value}, ptr {pointer}, align {align}")
        e.branch(after)
        e.label(after)

    def _slot(self, value: Expr, text: str) -> str:
        """Return the 64-bit word of a register that holds a scalar."""
        e, dtype = self.emitter, value.dtype
        if dtype.is_float:
            text = e.value(f"bitcast {dtype.llvm} {text} to i{dtype.bits}")
        if dtype.bits == 64:
            return text
        instruction = "sext" if dtype.kind == "int" else "zext"
        return e.value(
            f"{instruction} {'i8' if dtype.is_stored else f'i{dtype.bits}'} {text} to i64"
        )
