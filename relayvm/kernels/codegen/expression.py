"""Expressions of loop nests as LLVM IR text: memory access, vectors, scalar functions."""

from __future__ import annotations

from dataclasses import dataclass, field

from relayvm.base.abi import Access, trap_status
from relayvm.base.diagnostics import assert_never
from relayvm.base.dtypes import BOOL, INT64, UINT64, DType
from relayvm.base.native.cpu import Cpu
from relayvm.kernels.codegen.dots import emit_dot
from relayvm.kernels.codegen.emitter import (
    Emitter,
    LlvmMachine,
    intrinsic_suffix,
    literal,
    memory_type,
    type_text,
)
from relayvm.kernels.codegen.outlining import Outlined
from relayvm.kernels.loops import (
    Apart,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Const,
    DimRef,
    Dot,
    Expr,
    Gather,
    Index,
    Lane,
    Load,
    Mask,
    Ramp,
    Select,
    Shuffle,
    Tile,
    TileLoad,
    Tree,
    Var,
    call,
    const,
)
from relayvm.kernels.scalar_ops import SCALAR_OPS
from relayvm.kernels.scalars.arithmetic import DIVISIONS_BY_POSITIVE
from relayvm.kernels.scalars.conversion import cast
from relayvm.kernels.scalars.value import Value

MANY_LANES = 32
# What the bits of all lanes are compared with, and how.
_BIT_TESTS = {"logical_or": ("ne", 0), "logical_and": ("eq", -1)}
# Whether the lanes before a border are those for which a comparison holds, and by how much the
# border is after what they are compared with.
_BORDERS = {
    "less": (True, 0),
    "less_equal": (True, 1),
    "greater_equal": (False, 0),
    "greater": (False, 1),
}


@dataclass(eq=False)
class ExpressionEmitter:
    """Writes expressions; its fields say what the names of a nest are in LLVM."""

    emitter: Emitter
    cpu: Cpu | None = None
    outlined: Outlined | None = None
    names: dict[str, str] = field(default_factory=dict)
    dims: dict[str, str] = field(default_factory=dict)
    pointers: dict[str, str] = field(default_factory=dict)
    strides: dict[str, list[str]] = field(default_factory=dict)
    tiles: dict[str, str] = field(default_factory=dict)
    _zero_slot: str = ""
    _masks: dict[tuple[int, int], str] = field(default_factory=dict)

    def emit(self, expr: Expr) -> str:
        """Return the operand that holds the value of `expr`."""
        match expr:
            case Const():
                return literal(expr.value, expr.dtype)
            case Var():
                return self.names[expr.name]
            case DimRef():
                return self.dims[expr.name]
            case Call():
                return self._call(expr)
            case Cast():
                return str(cast(self._value(expr.value), expr.dtype).raw)
            case Select():
                machine = LlvmMachine(self.emitter, expr.lanes)
                condition, a, b = (self.emit(x) for x in (expr.condition, expr.a, expr.b))
                return machine.choose(condition, a, b, expr.dtype)
            case Broadcast():
                if isinstance(expr.value, Const):
                    return literal(expr.value.value, expr.dtype, expr.lanes)
                value = self.emit(expr.value)
                return self.emitter.splat(value, type_text(expr.dtype), expr.lanes)
            case _:
                return self._emit_vector(expr)

    def _call(self, call: Call) -> str:
        border = _lanes_below(call)
        if border is not None:
            lanes, holds = border
            mask = self._mask(lanes)
            if holds:
                return mask
            everywhere = literal(1, BOOL, call.lanes)
            return self.emitter.value(f"xor <{call.lanes} x i1> {mask}, {everywhere}")
        values = [self._value(a) for a in call.args]
        program = DIVISIONS_BY_POSITIVE.get(call.name)
        if program is not None and call.dtype.is_integer:
            divisor = call.args[1].value if isinstance(call.args[1], Broadcast) else call.args[1]
            if isinstance(divisor, Const) and divisor.value > 0:
                return str(program(values[0], int(divisor.value)).raw)
        op = SCALAR_OPS[call.name]
        if self.outlined is None:
            return str(op.program(*values).raw)
        return self.outlined.apply(op, values, self.emitter, call.lanes)

    def _emit_vector(
        self,
        expr: Ramp | Mask | Index | Load | Gather | TileLoad | Apart | Tree | Dot | Lane | Shuffle,
    ) -> str:
        match expr:
            case Ramp():
                return self._ramp(expr)
            case Mask():
                return self._mask(expr)
            case Index():
                return self._index(expr)
            case Load():
                return self._load(expr)
            case Gather():
                return self._gather(expr)
            case TileLoad():
                type_ = memory_type(expr.dtype, expr.lanes)
                pointer = self.tile_pointer(expr.tile, expr.index)
                loaded = self.emitter.value(f"load {type_}, ptr {pointer}")
                return self._from_memory(loaded, expr.dtype, expr.lanes)
            case Apart():
                places = self.pointers[expr.output.name], self.pointers[expr.input.name]
                return self.emitter.value(f"icmp ne ptr {places[0]}, {places[1]}")
            case Tree():
                return self._tree(expr)
            case Dot():
                operands = (self.emit(expr.acc), self.emit(expr.a), self.emit(expr.b))
                return emit_dot(self.emitter, self.cpu, expr, operands)
            case Shuffle():
                a, b = self.emit(expr.a), self.emit(expr.b)
                type_ = type_text(expr.dtype)
                return self.emitter.shuffle(a, b, type_, expr.a.lanes, expr.picks)
            case Lane():
                vector = f"<{expr.vector.lanes} x {type_text(expr.dtype)}>"
                return self.emitter.value(
                    f"extractelement {vector} {self.emit(expr.vector)}, i32 {expr.lane}"
                )
            case _:
                assert_never(expr)

    def _value(self, expr: Expr) -> Value:
        return Value(LlvmMachine(self.emitter, expr.lanes), self.emit(expr), expr.dtype)

    def tile_pointer(self, tile: Tile, index: Expr) -> str:
        """Return the address of one value of a tile."""
        type_ = memory_type(tile.dtype, tile.lanes)
        base, at = self.tiles[tile.name], self.emit(index)
        return self.emitter.value(f"getelementptr {type_}, ptr {base}, i64 {at}")

    def _from_memory(self, loaded: str, dtype: DType, lanes: int) -> str:
        """Return a loaded value as it is in registers: any byte other than 0 is true."""
        if not dtype.is_bool:
            return loaded
        type_ = memory_type(dtype, lanes)
        zero = "0" if lanes == 1 else "zeroinitializer"
        return self.emitter.value(f"icmp ne {type_} {loaded}, {zero}")

    # ---- lanes ----

    def _ramp(self, ramp: Ramp) -> str:
        e, n = self.emitter, ramp.lanes
        base = e.splat(self.emit(ramp.base), "i64", n)
        stride = e.splat(self.emit(ramp.stride), "i64", n)
        numbers = "<" + ", ".join(f"i64 {k}" for k in range(n)) + ">"
        scaled = e.value(f"mul <{n} x i64> {stride}, {numbers}")
        return e.value(f"add <{n} x i64> {base}, {scaled}")

    def _mask(self, mask: Mask) -> str:
        e, n = self.emitter, mask.lanes
        if isinstance(mask.count, Const) and n > 1 and self.cpu and self.cpu.vector_bits == 512:
            held = min(max(int(mask.count.value), 0), n)
            return self._hidden_mask((1 << held) - 1, n)
        count = self._count(mask)
        if n == 1:
            return e.value(f"icmp ne i64 {count}, 0")
        # Many lanes are compared at once as bytes, which hold their numbers.
        kind = "i8" if MANY_LANES <= n < 128 else "i32"
        limit = e.splat(e.value(f"trunc i64 {count} to {kind}"), kind, n)
        numbers = "<" + ", ".join(f"{kind} {k}" for k in range(n)) + ">"
        return e.value(f"icmp slt <{n} x {kind}> {numbers}, {limit}")

    def _hidden_mask(self, bits: int, lanes: int) -> str:
        """Return a known mask as an unknown one.

        LLVM would make choices by it parts of the shuffles that follow, and two instructions of
        masked arithmetic.
        """
        known = self._masks.get((bits, lanes))
        if known is None:
            known = self._masks[(bits, lanes)] = self._mask_of_word(bits, lanes)
        return known

    def _mask_of_word(self, bits: int, lanes: int) -> str:
        size = max(8, lanes)
        word, mask = (f"%{self.emitter.fresh('m')}" for _ in range(2))
        entry = self.emitter.entry
        entry.append(f'  {word} = call i{size} asm "", "=r,0"(i{size} {bits})')
        if size > lanes:
            short = f"%{self.emitter.fresh('m')}"
            entry.append(f"  {short} = trunc i{size} {word} to i{lanes}")
            word = short
        entry.append(f"  {mask} = bitcast i{lanes} {word} to <{lanes} x i1>")
        return mask

    def _count(self, mask: Mask) -> str:
        """Return how many lanes a mask lets pass."""
        e, count = self.emitter, self.emit(mask.count)
        low = e.value(f"call i64 @llvm.smax.i64(i64 {count}, i64 0)")
        return e.value(f"call i64 @llvm.smin.i64(i64 {low}, i64 {mask.lanes})")

    def _index(self, index: Index) -> str:
        e = self.emitter
        value, extent = self.emit(index.value), self.emit(index.extent)
        if index.mode == "trap":
            # Unsigned, so that a negative value is too large; an extent below 1 admits nothing.
            size = e.value(f"call i64 @llvm.smax.i64(i64 {extent}, i64 0)")
            fine = e.value(f"icmp ult i64 {value}, {size}")
        else:
            fine = e.value(f"icmp sgt i64 {extent}, 0")
        e.trap_unless(fine, lambda: self._told(index, value, extent))
        if index.mode == "trap":
            return value
        if index.mode == "wrap":
            rest = e.value(f"srem i64 {value}, {extent}")
            negative = e.value(f"icmp slt i64 {rest}, 0")
            moved = e.value(f"add i64 {rest}, {extent}")
            return e.value(f"select i1 {negative}, i64 {moved}, i64 {rest}")
        last = e.value(f"sub i64 {extent}, 1")
        low = e.value(f"call i64 @llvm.smax.i64(i64 {value}, i64 0)")
        return e.value(f"call i64 @llvm.smin.i64(i64 {low}, i64 {last})")

    def _told(self, index: Index, value: str, extent: str) -> tuple[int, str, str]:
        """Return the status of a trap and what it tells, which is computed where it is met."""
        if index.told is None:
            return trap_status(index.reason), value, extent
        first, second = (self._as_word(t) for t in index.told)
        return trap_status(index.reason, index.told[0].dtype == UINT64), first, second

    def _as_word(self, expr: Expr) -> str:
        text = self.emit(expr)
        if not expr.dtype.is_float:
            return text
        return self.emitter.value(f"bitcast {type_text(expr.dtype)} {text} to i64")

    # ---- memory ----

    def _load(self, load: Load) -> str:
        buffer, lanes = load.buffer, load.lanes
        if lanes > 1 and buffer.access is Access.STRIDED:
            return self._strided_load(load)
        pointer = element_pointer(self, buffer, load.indices)
        if lanes > 1 and isinstance(load.mask, Mask) and not self._has_masks(buffer.dtype):
            return self._load_first(buffer.dtype, lanes, pointer, self._count(load.mask))
        mask = None if load.mask is None else self.emit(load.mask)
        return self._load_at(buffer.dtype, lanes, pointer, mask)

    def _has_masks(self, dtype: DType) -> bool:
        """Return whether masked loads are instructions; else they are a branch for each lane."""
        return self.cpu is None or self.cpu.vector_bits == 512 or dtype.bits > 16

    def _load_first(self, dtype: DType, lanes: int, pointer: str, count: str) -> str:
        """Load the first elements one by one, the rest is 0."""
        e, type_ = self.emitter, memory_type(dtype, lanes)
        slot = e.alloca(type_, 64)
        e.do(f"store {type_} zeroinitializer, ptr {slot}, align 64")
        head, inside, after = e.fresh("head"), e.fresh("body"), e.fresh("done")
        at, following, before = f"%{e.fresh('i')}", f"%{e.fresh('n')}", e.block
        e.branch(head)
        e.label(head)
        e.do(f"{at} = phi i64 [0, %{before}], [{following}, %{inside}]")
        with e.scope():
            e.branch_if(e.value(f"icmp slt i64 {at}, {count}"), inside, after)
            e.label(inside)
            source = e.value(f"getelementptr {dtype.llvm}, ptr {pointer}, i64 {at}")
            target = e.value(f"getelementptr {dtype.llvm}, ptr {slot}, i64 {at}")
            element = e.value(f"load {dtype.llvm}, ptr {source}, align {dtype.itemsize_bytes}")
            e.do(f"store {dtype.llvm} {element}, ptr {target}, align {dtype.itemsize_bytes}")
        e.do(f"{following} = add nsw i64 {at}, 1")
        e.branch(head)
        e.label(after)
        return self._from_memory(e.value(f"load {type_}, ptr {slot}, align 64"), dtype, lanes)

    def _load_at(self, dtype: DType, lanes: int, pointer: str, mask: str | None) -> str:
        e = self.emitter
        type_, align = memory_type(dtype, lanes), dtype.itemsize_bytes
        if mask is not None and lanes == 1:
            pointer = e.value(f"select i1 {mask}, ptr {pointer}, ptr {self._zeros()}")
            mask = None
        if mask is None:
            loaded = e.value(f"load {type_}, ptr {pointer}, align {align}")
        else:
            suffix = intrinsic_suffix(dtype, lanes)
            loaded = e.value(
                f"call {type_} @llvm.masked.load.{suffix}.p0(ptr align {align} {pointer}, "
                f"<{lanes} x i1> {mask}, {type_} zeroinitializer)"
            )
        return self._from_memory(loaded, dtype, lanes)

    def _zeros(self) -> str:
        """Return the address of eight zero bytes, read where an element must not be touched."""
        if not self._zero_slot:
            self._zero_slot = self.emitter.alloca("i64", 8)
            self.emitter.entry.append(f"  store i64 0, ptr {self._zero_slot}, align 8")
        return self._zero_slot

    def _strided_load(self, load: Load) -> str:
        """Load along the last axis, whose stride is 1, or 0 where its size is 1."""
        e, buffer, lanes = self.emitter, load.buffer, load.lanes
        pointer = element_pointer(self, buffer, load.indices)
        mask = None if load.mask is None else self.emit(load.mask)
        stride = self.strides[buffer.name][-1]
        row, one, after = e.fresh("row"), e.fresh("one"), e.fresh("done")
        e.branch_if(e.value(f"icmp eq i64 {stride}, 1"), row, one)
        e.label(row)
        with e.scope():
            contiguous = self._load_at(buffer.dtype, lanes, pointer, mask)
        e.branch(after)
        e.label(one)
        with e.scope():
            single = self._one_for_all(load, pointer, mask)
        e.branch(after)
        e.label(after)
        type_ = type_text(buffer.dtype, lanes)
        return e.phi(type_, (contiguous, row), (single, one))

    def _one_for_all(self, load: Load, pointer: str, mask: str | None) -> str:
        """Return the one element of an axis of size 1 in all lanes that a mask lets pass."""
        e, dtype, lanes = self.emitter, load.buffer.dtype, load.lanes
        type_, any_lane = type_text(dtype), None
        if mask is not None:
            any_lane = e.value(f"call i1 @llvm.vector.reduce.or.v{lanes}i1(<{lanes} x i1> {mask})")
        everywhere = e.splat(self._load_at(dtype, 1, pointer, any_lane), type_, lanes)
        if mask is None:
            return everywhere
        return LlvmMachine(e, lanes).choose(mask, everywhere, "zeroinitializer", dtype)

    def _gather(self, gather: Gather) -> str:
        buffer, lanes = gather.buffer, gather.lanes
        if lanes == 1:
            return self._load(Load(buffer, gather.indices, 1, gather.mask))
        offset = element_offset(self, buffer, gather.indices, lanes)
        mask = None if gather.mask is None else self.emit(gather.mask)
        return self._gather_at(buffer.dtype, lanes, self.pointers[buffer.name], offset, mask)

    def _gather_at(
        self, dtype: DType, lanes: int, base: str, offsets: str, mask: str | None
    ) -> str:
        e = self.emitter
        type_, align = memory_type(dtype, lanes), dtype.itemsize_bytes
        pointers = e.value(f"getelementptr {dtype.llvm}, ptr {base}, <{lanes} x i64> {offsets}")
        flags = mask if mask is not None else literal(1, BOOL, lanes)
        suffix = intrinsic_suffix(dtype, lanes)
        loaded = e.value(
            f"call {type_} @llvm.masked.gather.{suffix}.v{lanes}p0("
            f"<{lanes} x ptr> align {align} {pointers}, <{lanes} x i1> {flags}, "
            f"{type_} zeroinitializer)"
        )
        return self._from_memory(loaded, dtype, lanes)

    # ---- trees ----

    def _tree(self, tree: Tree) -> str:
        """Fold each vector in halves; several vectors are folded side by side, segment by segment.

        Joining vector j with the one that is half of them further on keeps the order: one that
        holds the segments of j and one that holds those of the other become one with both, each
        segment half as long and where its lower half was.
        """
        lanes = tree.vectors[0].lanes
        vectors = [self.emit(v) for v in tree.vectors]
        if tree.dtype.is_bool and tree.op in _BIT_TESTS:
            return self._any_or_all(tree.op, vectors, lanes)
        segments, width = 1, lanes
        while len(vectors) > 1:
            count = len(vectors) // 2
            vectors = [
                self._join(tree, a, b, lanes, width) for a, b in zip(vectors, vectors[count:])
            ]
            segments, width = segments * 2, width // 2
        (result,) = vectors
        if segments > 1:
            return self._folded_in_place(tree, result, segments, width)
        while width > 1:
            half = width // 2
            low = list(range(half))
            result = self._combine(tree, result, result, width, low, [k + half for k in low])
            width = half
        return result

    def _any_or_all(self, op: str, vectors: list[str], lanes: int) -> str:
        """Return whether any or all lanes of vectors are true: their bits are one integer."""
        e, (relation, bits) = self.emitter, _BIT_TESTS[op]
        results = []
        for vector in vectors:
            whole = e.value(f"bitcast <{lanes} x i1> {vector} to i{lanes}")
            results.append(e.value(f"icmp {relation} i{lanes} {whole}, {bits}"))
        if len(results) == 1:
            return results[0]
        count, bytes_ = len(results), "zeroinitializer"
        for number, result in enumerate(results):
            byte = e.value(f"zext i1 {result} to i8")
            bytes_ = e.value(f"insertelement <{count} x i8> {bytes_}, i8 {byte}, i32 {number}")
        return e.value(f"trunc <{count} x i8> {bytes_} to <{count} x i1>")

    def _folded_in_place(self, tree: Tree, result: str, segments: int, width: int) -> str:
        """Fold each segment of a vector to its first lane; shuffles stay inside of them."""
        lanes, half = segments * width, width // 2
        same = list(range(lanes))
        while half:
            swapped = [k ^ half for k in same]
            result = self._combine(tree, result, result, lanes, same, swapped)
            half //= 2
        if width == 1:
            return result
        type_ = type_text(tree.dtype)
        return self.emitter.shuffle(
            result, result, type_, lanes, [k * width for k in range(segments)]
        )

    def _join(self, tree: Tree, a: str, b: str, lanes: int, width: int) -> str:
        """Fold the segments of two vectors: those of `a` to lower halves, of `b` to upper ones."""
        half = width // 2
        upper = [k % width >= half for k in range(lanes)]
        if tree.op == "add":
            # One side is a choice between the vectors, which costs less than a shuffle. It swaps
            # the operands of the upper halves, which a sum does not see.
            first = [k + lanes if up else k for k, up in enumerate(upper)]
            second = [k - half + lanes if up else k + half for k, up in enumerate(upper)]
            if self._has_vectors_of(lanes * tree.dtype.bits):
                return self._join_by_mask(tree, a, b, lanes, upper, second)
            return self._combine(tree, a, b, lanes, first, second)
        first = [k - half + lanes if up else k for k, up in enumerate(upper)]
        second = [k + lanes if up else k + half for k, up in enumerate(upper)]
        return self._combine(tree, a, b, lanes, first, second)

    def _has_vectors_of(self, bits: int) -> bool:
        return self.cpu is not None and self.cpu.vector_bits == bits == 512

    def _join_by_mask(
        self, tree: Tree, a: str, b: str, lanes: int, upper: list[bool], second: list[int]
    ) -> str:
        """Join two sums by a choice whose lanes LLVM does not know: it would be a shuffle."""
        e, type_ = self.emitter, type_text(tree.dtype)
        machine = LlvmMachine(e, lanes)
        mask = self._hidden_mask(sum(1 << k for k, up in enumerate(upper) if up), lanes)
        sides = (machine.choose(mask, b, a, tree.dtype), e.shuffle(a, b, type_, lanes, second))
        values = [Value(machine, raw, tree.dtype) for raw in sides]
        return str(SCALAR_OPS[tree.op].program(*values).raw)

    def _combine(
        self, tree: Tree, a: str, b: str, lanes: int, low: list[int], high: list[int]
    ) -> str:
        e, type_ = self.emitter, type_text(tree.dtype)
        machine = LlvmMachine(e, len(low))
        sides = []
        for source, picks in ((a, low), (b, high)):
            if len(picks) == 1:
                vector = f"<{lanes} x {type_}> {source}"
                raw = e.value(f"extractelement {vector}, i32 {picks[0]}")
            else:
                raw = e.shuffle(a, b, type_, lanes, picks)
            sides.append(Value(machine, raw, tree.dtype))
        return str(SCALAR_OPS[tree.op].program(*sides).raw)


def element_offset(
    emitter: ExpressionEmitter, buffer: Buffer, indices: tuple[Expr, ...], lanes: int = 1
) -> str:
    """Return how many elements from its start a buffer's element is, in each lane."""
    e = emitter.emitter
    machine = LlvmMachine(e, lanes)

    def apply(name: str, a: str, b: str) -> str:
        return machine.apply(name, INT64, (a, b))

    def wide(value: str) -> str:
        return e.splat(value, "i64", lanes)

    places = [emitter.emit(i) for i in indices]
    if len(places) == 1 and len(buffer.shape) != 1:
        assert buffer.access is not Access.STRIDED, buffer.name
        return places[0]
    offset = ""
    if buffer.access is Access.STRIDED:
        for place, stride in zip(places, emitter.strides[buffer.name]):
            step = apply("multiply", place, wide(stride))
            offset = apply("add", offset, step) if offset else step
    else:
        for place, extent in zip(places, buffer.shape):
            if offset:
                offset = apply("add", apply("multiply", offset, wide(emitter.emit(extent))), place)
            else:
                offset = place
    return offset or literal(0, INT64, lanes)


def _lanes_below(comparison: Call) -> tuple[Mask, bool] | None:
    """Return the lanes before the border of a comparison of numbers in a row with one, and whether
    it holds for these or for the others; None where it is no such comparison.

    `less(ramp(i, 1, 64), broadcast(n, 64))` holds for the first `n - i`.
    """
    if comparison.name not in _BORDERS or comparison.lanes == 1:
        return None
    match comparison.args:
        case (Ramp(first, Const(1)), Broadcast(limit)) if first.dtype == INT64:
            holds, more = _BORDERS[comparison.name]
            count = call("add", call("subtract", limit, first), const(more))
            return Mask(count, comparison.lanes), holds
        case _:
            return None


def element_pointer(emitter: ExpressionEmitter, buffer: Buffer, indices: tuple[Expr, ...]) -> str:
    """Return the address of a buffer's element."""
    base = emitter.pointers[buffer.name]
    for offset in _offsets(emitter, buffer, indices):
        if offset != "0":
            base = emitter.emitter.value(
                f"getelementptr {buffer.dtype.llvm}, ptr {base}, i64 {offset}"
            )
    return base


def _offsets(
    emitter: ExpressionEmitter, buffer: Buffer, indices: tuple[Expr, ...]
) -> tuple[str, ...]:
    """Return offsets whose sum is that of an element; the first does not change in inner loops."""
    last = indices[-1] if indices else None
    if buffer.access is not Access.STRIDED and last is not None:
        if len(indices) > 1:
            # What stands before the last index begins a row.
            row = element_offset(emitter, buffer, (*indices[:-1], const(0)))
            parts = row, emitter.emit(last)
        elif isinstance(last, Call) and last.name == "add":
            parts = emitter.emit(last.args[0]), emitter.emit(last.args[1])
        else:
            return (emitter.emit(last),)
        first, second = sorted(parts, key=emitter.emitter.depth)
        if emitter.emitter.depth(first) < emitter.emitter.depth(second):
            return first, second
    return (element_offset(emitter, buffer, indices),)
