"""Inline lowerings of instructions on objects: the common case in place, all others by the C body.

A header is one word: count, layout, kind, size class, from the lowest bits up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relayvm.vm.isa import ISA
from relayvm.vm.jit.writer import Writer
from relayvm.vm.program import Instr, block_class

ObjectLowering = Callable[[Writer, Instr], None]

_TENSOR, _CELL = 1, 2
_KIND_OFFSET = 6
_LAYOUT_OFFSET = 4
_STICKY = 1 << 30


def _move(w: Writer, instr: Instr) -> None:
    dst, src = instr.operands
    w.store(str(dst), w.load(str(src)))


def _constant(w: Writer, instr: Instr) -> None:
    dst, k = instr.operands
    table = w.of_machine("constants", "ptr")
    place = w.address(table, 8 * int(k))  # type: ignore[arg-type]
    w.store(str(dst), w.value(f"load i64, ptr {place}, !invariant.load !0"))


def _count(w: Writer, word: str) -> tuple[str, str]:
    """Return where an object's count is, and the count."""
    place = w.pointer(word)
    return place, w.value(f"load atomic i32, ptr {place} monotonic, align 8")


def add_count(w: Writer, word: str, otherwise: Callable[[], None]) -> None:
    """Add a count to an object; what is shared is left to `otherwise`, which writes code."""
    place, count = _count(w, word)
    before = w.value(f"sub i32 {count}, 1")
    local = w.value(f"icmp ult i32 {before}, {_STICKY - 1}")
    shared, done = w.name("shared"), w.name("done")
    w.expect(local, shared)
    more = w.value(f"add i32 {count}, 1")
    w.do(f"store atomic i32 {more}, ptr {place} monotonic, align 8")
    w.do(f"br label %{done}")
    with w.aside(shared):
        otherwise()
        w.do(f"br label %{done}")
    w.block(done)


def _retain(w: Writer, instr: Instr) -> None:
    dst, src = (str(operand) for operand in instr.operands)
    word = w.load(src)
    add_count(w, word, lambda: w.body(instr, cold=True))
    w.store(dst, word)


def _release(w: Writer, instr: Instr) -> None:
    (src,) = (str(operand) for operand in instr.operands)
    release(w, w.load(src))


def release_by_body(w: Writer, word: str) -> None:
    """Drop a count by the C body."""
    w.call(ISA["release"].opcode, "void", [f"i64 {word}"])


def release(w: Writer, word: str) -> None:
    """Drop a count; the last one, and those of shared objects, by the C body."""
    place, count = _count(w, word)
    before = w.value(f"sub i32 {count}, 2")
    stays = w.value(f"icmp ult i32 {before}, {_STICKY - 2}")
    drop, keep, done = w.name("drop"), w.name("keep"), w.name("done")
    w.branch(stays, keep, drop)
    w.block(drop)
    release_by_body(w, word)
    w.do(f"br label %{done}")
    w.block(keep)
    less = w.value(f"sub i32 {count}, 1")
    w.do(f"store atomic i32 {less}, ptr {place} monotonic, align 8")
    w.do(f"br label %{done}")
    w.block(done)


def _layout_of(w: Writer, place: str) -> str:
    return w.value(f"load i16, ptr {w.address(place, _LAYOUT_OFFSET)}")


def is_layout(w: Writer, place: str, type_: Any) -> str:
    """Return whether an object has a layout."""
    signed = int(type_) - (1 << 16) if int(type_) >= 1 << 15 else int(type_)
    return w.value(f"icmp eq i16 {_layout_of(w, place)}, {signed}")


def or_by_body(w: Writer, instr: Instr, condition: str) -> str:
    """Go on where the condition holds, else do it by the body; return the block behind both."""
    slow, done = w.name("slow"), w.name("done")
    w.expect(condition, slow)
    with w.aside(slow):
        w.body(instr, cold=True)
        w.do(f"br label %{done}")
    return done


def finish(w: Writer, done: str) -> None:
    """End the usual case of `or_by_body`: go on behind both ways."""
    w.do(f"br label %{done}")
    w.block(done)


def _field(w: Writer, instr: Instr) -> None:
    dst, src, type_, i = instr.operands
    place = w.pointer(w.load(str(src)))
    done = or_by_body(w, instr, is_layout(w, place, type_))
    at = w.address(place, w.host.offsets["fields"] + 8 * int(i))  # type: ignore[arg-type]
    w.store(str(dst), w.value(f"load i64, ptr {at}"))
    finish(w, done)


def _field_retain(w: Writer, instr: Instr) -> None:
    dst, src, type_, i = instr.operands
    place = w.pointer(w.load(str(src)))
    done = or_by_body(w, instr, is_layout(w, place, type_))
    at = w.address(place, w.host.offsets["fields"] + 8 * int(i))  # type: ignore[arg-type]
    word = w.value(f"load i64, ptr {at}")
    add_count(w, word, lambda: w.body(instr, cold=True))
    w.store(str(dst), word)
    finish(w, done)


def tag_of(w: Writer, src: str, type_: int) -> tuple[str, str]:
    """Return a constructor's number, and whether it is one of the data type."""
    layout = w.value(f"zext i16 {_layout_of(w, w.pointer(w.load(src)))} to i32")
    tag = w.value(f"sub i32 {layout}, {type_}")
    return tag, w.value(f"icmp ult i32 {tag}, {w.program.layouts[type_].tags}")


def _tag(w: Writer, instr: Instr) -> None:
    dst, src, type_ = instr.operands
    assert isinstance(type_, int)
    tag, known = tag_of(w, str(src), type_)
    done = or_by_body(w, instr, known)
    w.store(str(dst), w.value(f"zext i32 {tag} to i64"))
    finish(w, done)


_NO_LAYOUT = 0xFFFF


def _header(type_: int, size: int) -> int:
    """Return the header of a cell that is held once."""
    word = 1 | type_ << 32 | _CELL << 48 | size << 56
    return word - (1 << 64) if word >= 1 << 63 else word


def _free_list(w: Writer, size: int) -> str:
    return w.address("%m", w.host.offsets["free_blocks"] + 8 * size)


def _cell_new(w: Writer, instr: Instr) -> None:
    dst, type_, fields = instr.operands
    assert isinstance(type_, int) and isinstance(fields, tuple)
    size = block_class(len(fields))
    if w.host.is_stress or size is None:
        w.body(instr)
        return
    head = _free_list(w, size)
    block = w.value(f"load ptr, ptr {head}")
    done = or_by_body(w, instr, w.value(f"icmp ne ptr {block}, null"))
    following = w.value(f"load ptr, ptr {block}")
    w.do(f"store ptr {following}, ptr {head}")
    _fill_cell(w, block, type_, fields, "new_cells")
    w.store(str(dst), w.value(f"ptrtoint ptr {block} to i64"))
    finish(w, done)


def _fill_cell(w: Writer, block: str, type_: int, fields: tuple[str, ...], counter: str) -> None:
    """Make a cell of a block, and count it."""
    size = block_class(len(fields))
    assert size is not None
    w.do(f"store i64 {_header(type_, size)}, ptr {block}")
    _set_shape(w, block, "layouts", type_)
    for i, register in enumerate(fields):
        at = w.address(block, w.host.offsets["fields"] + 8 * i)
        w.do(f"store i64 {w.load(register)}, ptr {at}")
    place = w.address("%m", w.host.offsets[counter])
    more = w.value(f"add i64 {w.value(f'load i64, ptr {place}')}, 1")
    w.do(f"store i64 {more}, ptr {place}")


def _set_shape(w: Writer, block: str, table: str, row: int) -> None:
    shape = w.address(w.of_machine(table, "ptr"), w.host.offsets["layout_bytes"] * row)
    w.do(f"store ptr {shape}, ptr {w.address(block, w.host.offsets['shape'])}")


def _cell_reuse(w: Writer, instr: Instr) -> None:
    dst, memory, type_, fields = instr.operands
    assert isinstance(type_, int) and isinstance(fields, tuple)
    size = block_class(len(fields))
    if w.host.is_stress or size is None:
        w.body(instr)
        return
    word = w.load(str(memory))
    block = w.pointer(word)
    header = w.value(f"load atomic i64, ptr {block} monotonic, align 8")
    fits = w.value(f"icmp eq i64 {header}, {_header(_NO_LAYOUT, size)}")
    here, anew, done = w.name("here"), w.name("anew"), w.name("done")
    w.branch(fits, here, anew)
    w.block(anew)
    w.body(instr)
    w.do(f"br label %{done}")
    w.block(here)
    _fill_cell(w, block, type_, fields, "reused_cells")
    w.store(str(dst), word)
    finish(w, done)


def _cell_unpack(w: Writer, instr: Instr) -> None:
    """A cell that is held once becomes the next of its size."""
    src, type_, fields = instr.operands
    assert isinstance(type_, int) and isinstance(fields, tuple)
    taken = _take_apart(w, instr, str(src), type_, fields)
    if taken is None:
        return
    block, size, done = taken
    head = _free_list(w, size)
    w.do(f"store ptr {w.value(f'load ptr, ptr {head}')}, ptr {block}")
    w.do(f"store ptr {block}, ptr {head}")
    finish(w, done)


def _cell_unpack_keep(w: Writer, instr: Instr) -> None:
    memory, src, type_, fields = instr.operands
    assert isinstance(type_, int) and isinstance(fields, tuple)
    word = w.load(str(src))
    taken = _take_apart(w, instr, str(src), type_, fields)
    if taken is None:
        return
    block, size, done = taken
    w.do(f"store i64 {_header(_NO_LAYOUT, size)}, ptr {block}")
    _set_shape(w, block, "memory_shapes", size)
    w.store(str(memory), word)
    finish(w, done)


def _take_apart(
    w: Writer, instr: Instr, src: str, type_: int, fields: tuple[str, ...]
) -> tuple[str, int, str] | None:
    """Load the fields of a cell that is held once, which its header says in one look.

    All others are left to the body. Returns the block, its size class, and the label of what comes
    behind; None if the body does it all.
    """
    size = block_class(len(fields))
    if w.host.is_stress or size is None:
        w.body(instr)
        return None
    block = w.pointer(w.load(src))
    header = w.value(f"load atomic i64, ptr {block} monotonic, align 8")
    only = w.value(f"icmp eq i64 {header}, {_header(type_, size)}")
    unique, shared, done = w.name("unique"), w.name("shared"), w.name("done")
    w.branch(only, unique, shared)
    w.block(shared)
    w.body(instr)
    w.do(f"br label %{done}")
    w.block(unique)
    for i, register in enumerate(fields):
        at = w.address(block, w.host.offsets["fields"] + 8 * i)
        w.store(register, w.value(f"load i64, ptr {at}"))
    return block, size, done


def _array_length(w: Writer, instr: Instr) -> None:
    dst, src, type_ = instr.operands
    place = w.pointer(w.load(str(src)))
    done = or_by_body(w, instr, is_layout(w, place, type_))
    at = w.address(place, w.host.offsets["array_length"])
    w.store(str(dst), w.value(f"load i64, ptr {at}"))
    finish(w, done)


def is_tensor(w: Writer, place: str) -> str:
    """Return whether an object is a tensor."""
    kind = w.value(f"load i8, ptr {w.address(place, _KIND_OFFSET)}")
    return w.value(f"icmp eq i8 {kind}, {_TENSOR}")


def _rank(w: Writer, place: str) -> str:
    return w.value(f"load i8, ptr {w.address(place, w.host.offsets['tensor_dtype'] + 1)}")


def _tensor_rank(w: Writer, instr: Instr) -> None:
    dst, src = instr.operands
    place = w.pointer(w.load(str(src)))
    done = or_by_body(w, instr, is_tensor(w, place))
    w.store(str(dst), w.value(f"zext i8 {_rank(w, place)} to i64"))
    finish(w, done)


def _tensor_dim(w: Writer, instr: Instr) -> None:
    dst, src, axis = instr.operands
    assert isinstance(axis, int)
    place = w.pointer(w.load(str(src)))
    enough, slow, done = w.name("enough"), w.name("slow"), w.name("done")
    w.branch(is_tensor(w, place), enough, slow, likely=True)
    w.block(enough)
    w.expect(w.value(f"icmp ugt i8 {_rank(w, place)}, {axis}"), slow)
    at = w.address(place, w.host.offsets["tensor_dims"] + 8 * axis)
    w.store(str(dst), w.value(f"load i64, ptr {at}"))
    with w.aside(slow):
        w.body(instr, cold=True)
        w.do(f"br label %{done}")
    finish(w, done)


def _check_equal(w: Writer, instr: Instr) -> None:
    a, b = (w.load(str(operand)) for operand in instr.operands)
    finish(w, or_by_body(w, instr, w.value(f"icmp eq i64 {a}, {b}")))


OBJECTS: dict[str, ObjectLowering] = {
    "move_object": _move,
    "borrow": _move,
    "constant": _constant,
    "retain": _retain,
    "release": _release,
    "cell_new": _cell_new,
    "cell_unpack": _cell_unpack,
    "cell_unpack_keep": _cell_unpack_keep,
    "cell_reuse": _cell_reuse,
    "field_word": _field,
    "field_borrow": _field,
    "field_retain": _field_retain,
    "tag": _tag,
    "array_length": _array_length,
    "tensor_dim": _tensor_dim,
    "tensor_rank": _tensor_rank,
    "check_equal": _check_equal,
}
