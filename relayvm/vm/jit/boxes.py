"""Inline lowerings of what is read and written in place: references, arrays, numbers in tensors,
and the checks of tensors. Their usual case is here, all others are left to the C body.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relayvm.base.dtypes import BY_CODE, BY_NAME, DType
from relayvm.vm.jit.objects import ObjectLowering, add_count, is_layout, is_tensor, release
from relayvm.vm.jit.words import kind_of
from relayvm.vm.jit.writer import Writer
from relayvm.vm.program import Instr

_MOST_ITEMS = (1 << 31) - 1


class _Usual:
    """An instruction in its usual case, which `expect` tells from others."""

    def __init__(self, w: Writer, instr: Instr) -> None:
        self.w, self.instr = w, instr
        self.slow, self.done = w.name("slow"), w.name("done")

    def expect(self, condition: str) -> None:
        """Go on where a condition holds, else by the C body, from the beginning."""
        self.w.expect(condition, self.slow)

    def end(self) -> None:
        """Go on behind both ways."""
        w = self.w
        with w.aside(self.slow):
            w.body(self.instr, cold=True)
            w.do(f"br label %{self.done}")
        w.do(f"br label %{self.done}")
        w.block(self.done)


def load_element(w: Writer, dtype: DType, place: str) -> str:
    """Return the word of an element in memory."""
    bits = 8 * dtype.itemsize_bytes
    value = w.value(f"load i{bits}, ptr {place}")
    if dtype.is_bool:
        return w.value(f"zext i1 {w.value(f'icmp ne i8 {value}, 0')} to i64")
    assert dtype.is_float or dtype.is_stored or kind_of(dtype) == f"i{bits}"
    if bits == 64:
        return value
    return w.value(f"{'sext' if dtype.kind == 'int' else 'zext'} i{bits} {value} to i64")


# --- references -----------------------------------------------------------------------------------


def _own_reference(w: Writer, usual: _Usual, ref: str, type_: Any) -> str:
    """Return the place of a reference of this layout that no other thread can see."""
    place = w.pointer(w.load(ref))
    usual.expect(is_layout(w, place, type_))
    count = w.value(f"load atomic i32, ptr {place} monotonic, align 8")
    usual.expect(w.value(f"icmp sge i32 {count}, 0"))
    return place


def _value_place(w: Writer, usual: _Usual, place: str) -> tuple[str, str]:
    """Return where the value of a reference stands, and where it says that there is one."""
    full = w.address(place, w.host.offsets["ref_full"])
    usual.expect(w.value(f"icmp ne i32 {w.value(f'load i32, ptr {full}')}, 0"))
    return w.address(place, w.host.offsets["ref_value"]), full


def _ref_read_word(w: Writer, instr: Instr) -> None:
    dst, ref, type_ = instr.operands
    usual = _Usual(w, instr)
    value, _ = _value_place(w, usual, _own_reference(w, usual, str(ref), type_))
    w.store(str(dst), w.value(f"load i64, ptr {value}"))
    usual.end()


def _ref_read(w: Writer, instr: Instr) -> None:
    dst, ref, type_ = instr.operands
    usual = _Usual(w, instr)
    value, _ = _value_place(w, usual, _own_reference(w, usual, str(ref), type_))
    word = w.value(f"load i64, ptr {value}")
    add_count(w, word, lambda: w.body(instr, cold=True))
    w.store(str(dst), word)
    usual.end()


def _ref_write_word(w: Writer, instr: Instr) -> None:
    ref, type_, value = instr.operands
    usual = _Usual(w, instr)
    place = _own_reference(w, usual, str(ref), type_)
    w.do(f"store i64 {w.load(str(value))}, ptr {w.address(place, w.host.offsets['ref_value'])}")
    w.do(f"store i32 1, ptr {w.address(place, w.host.offsets['ref_full'])}")
    usual.end()


def _ref_write(w: Writer, instr: Instr) -> None:
    """The old value is dropped last: what it holds may be the reference."""
    ref, type_, value = instr.operands
    usual = _Usual(w, instr)
    at, _ = _value_place(w, usual, _own_reference(w, usual, str(ref), type_))
    old = w.value(f"load i64, ptr {at}")
    w.do(f"store i64 {w.load(str(value))}, ptr {at}")
    release(w, old)
    usual.end()


def _ref_take(w: Writer, instr: Instr) -> None:
    dst, ref, type_ = instr.operands
    usual = _Usual(w, instr)
    value, full = _value_place(w, usual, _own_reference(w, usual, str(ref), type_))
    w.store(str(dst), w.value(f"load i64, ptr {value}"))
    w.do(f"store i64 0, ptr {value}")
    w.do(f"store i32 0, ptr {full}")
    usual.end()


# --- arrays ---------------------------------------------------------------------------------------


def _item(w: Writer, usual: _Usual, place: str, index: str) -> str:
    """Return where an item of an array stands."""
    length = w.value(f"load i64, ptr {w.address(place, w.host.offsets['array_length'])}")
    usual.expect(w.value(f"icmp ult i64 {index}, {length}"))
    return _item_place(w, place, index)


def _item_place(w: Writer, place: str, index: str) -> str:
    items = w.value(f"load ptr, ptr {w.address(place, w.host.offsets['array_items'])}")
    return w.value(f"getelementptr i64, ptr {items}, i64 {index}")


def _array(w: Writer, usual: _Usual, src: str, type_: Any) -> str:
    place = w.pointer(w.load(src))
    usual.expect(is_layout(w, place, type_))
    return place


def _own_array(w: Writer, usual: _Usual, src: str, type_: Any) -> str:
    """Return the place of an array that is held once, and so may be changed."""
    place = _array(w, usual, src, type_)
    count = w.value(f"load atomic i32, ptr {place} monotonic, align 8")
    usual.expect(w.value(f"icmp eq i32 {count}, 1"))
    return place


def _array_get_word(w: Writer, instr: Instr) -> None:
    dst, src, type_, i = instr.operands
    usual = _Usual(w, instr)
    item = _item(w, usual, _array(w, usual, str(src), type_), w.load(str(i)))
    w.store(str(dst), w.value(f"load i64, ptr {item}"))
    usual.end()


def _array_get(w: Writer, instr: Instr) -> None:
    dst, src, type_, i = instr.operands
    usual = _Usual(w, instr)
    item = _item(w, usual, _array(w, usual, str(src), type_), w.load(str(i)))
    word = w.value(f"load i64, ptr {item}")
    add_count(w, word, lambda: w.body(instr, cold=True))
    w.store(str(dst), word)
    usual.end()


def _array_set(holds_objects: bool) -> ObjectLowering:
    def lower(w: Writer, instr: Instr) -> None:
        dst, src, type_, i, value = instr.operands
        usual = _Usual(w, instr)
        array = w.load(str(src))
        item = _item(w, usual, _own_array(w, usual, str(src), type_), w.load(str(i)))
        old = w.value(f"load i64, ptr {item}") if holds_objects else ""
        w.do(f"store i64 {w.load(str(value))}, ptr {item}")
        if holds_objects:
            release(w, old)
        w.store(str(dst), array)
        usual.end()

    return lower


def _array_push(w: Writer, instr: Instr) -> None:
    dst, src, type_, value = instr.operands
    usual = _Usual(w, instr)
    array = w.load(str(src))
    place = _own_array(w, usual, str(src), type_)
    at = w.address(place, w.host.offsets["array_length"])
    length = w.value(f"load i64, ptr {at}")
    room = w.value(f"load i64, ptr {w.address(place, w.host.offsets['array_capacity'])}")
    usual.expect(w.value(f"icmp ult i64 {length}, {room}"))
    usual.expect(w.value(f"icmp ult i64 {length}, {_MOST_ITEMS}"))
    w.do(f"store i64 {w.load(str(value))}, ptr {_item_place(w, place, length)}")
    w.do(f"store i64 {w.value(f'add i64 {length}, 1')}, ptr {at}")
    w.store(str(dst), array)
    usual.end()


# --- tensors --------------------------------------------------------------------------------------


def expect_tensor(
    w: Writer, expect: Callable[[str], None], place: str, dtype: DType, rank: int
) -> None:
    """Go on where an object is a tensor of this dtype and rank."""
    expect(is_tensor(w, place))
    both = w.value(f"load i16, ptr {w.address(place, w.host.offsets['tensor_dtype'])}")
    expect(w.value(f"icmp eq i16 {both}, {dtype.code | rank << 8}"))


def expect_size(
    w: Writer, expect: Callable[[str], None], place: str, axis: int, size: int | str
) -> None:
    """Go on where an axis of a tensor has a size."""
    at = w.address(place, w.host.offsets["tensor_dims"] + 8 * axis)
    expect(w.value(f"icmp eq i64 {w.value(f'load i64, ptr {at}')}, {size}"))


def _unbox_word(w: Writer, instr: Instr) -> None:
    dst, src, code = instr.operands
    dtype = BY_CODE[int(code)] if not isinstance(code, DType) else code  # type: ignore[arg-type]
    usual = _Usual(w, instr)
    place = w.pointer(w.load(str(src)))
    expect_tensor(w, usual.expect, place, dtype, 0)
    data = w.value(f"load ptr, ptr {w.address(place, w.host.offsets['tensor_data'])}")
    w.store(str(dst), load_element(w, dtype, data))
    usual.end()


def _check_dim(w: Writer, instr: Instr) -> None:
    src, axis, size = instr.operands
    assert isinstance(axis, int)
    usual = _Usual(w, instr)
    place = w.pointer(w.load(str(src)))
    usual.expect(is_tensor(w, place))
    rank = w.value(f"load i8, ptr {w.address(place, w.host.offsets['tensor_dtype'] + 1)}")
    usual.expect(w.value(f"icmp ugt i8 {rank}, {axis}"))
    expect_size(w, usual.expect, place, axis, w.load(str(size)))
    usual.end()


def _tensor_check(w: Writer, instr: Instr) -> None:
    src, type_ = instr.operands
    assert isinstance(type_, int)
    wanted = w.program.tensor_types[type_]
    usual = _Usual(w, instr)
    place = w.pointer(w.load(str(src)))
    expect_tensor(w, usual.expect, place, BY_NAME[wanted.dtype], len(wanted.dims))
    for axis, size in enumerate(wanted.dims):
        if size is not None:
            expect_size(w, usual.expect, place, axis, size)
    usual.end()


BOXES: dict[str, ObjectLowering] = {
    "ref_read_word": _ref_read_word,
    "ref_read": _ref_read,
    "ref_write_word": _ref_write_word,
    "ref_write": _ref_write,
    "ref_take": _ref_take,
    "array_get_word": _array_get_word,
    "array_get": _array_get,
    "array_set_word": _array_set(False),
    "array_set": _array_set(True),
    "array_push_word": _array_push,
    "array_push": _array_push,
    "unbox_word": _unbox_word,
    "check_dim": _check_dim,
    "tensor_check": _tensor_check,
}
