"""Selection of the intrinsics of arrays: an instruction each.

`array.set` and `array.push` take their array, so that one which nothing else holds is changed in
place.
"""

from __future__ import annotations

from collections.abc import Sequence

from relayvm.compiler.lower.code import Code, Value, type_of
from relayvm.compiler.lower.linear import OBJECT, WORD, Def, Operand, Reg, Take, Use
from relayvm.ir.expr import Call
from relayvm.ir.intrinsics import Intrinsic, item_of_call


def array_call(code: Code, call: Call, values: Sequence[Value]) -> Reg:
    """Emit a call of an intrinsic whose operands have been computed."""
    assert isinstance(call.op, Intrinsic)
    name, span = call.op.name.removeprefix("array."), call.span
    item = item_of_call(call)
    slot, layout = code.layouts.field_class(item), code.layouts.array_of(item)
    if name == "new":
        result = Reg(OBJECT, type=type_of(call))
        capacity = code.as_class(values[0], WORD, span)
        code.emit("array_new", Def(result), layout, Use(capacity), span=span)
        return result
    array = code.whole(values[0], span)
    if name == "length":
        result = Reg(WORD, type=type_of(call))
        code.emit("array_length", Def(result), Use(array), layout, span=span)
        return result
    operands: list[Operand] = []
    if name in ("get", "set"):
        operands.append(Use(code.as_class(values[1], WORD, span)))
    suffix = "_word" if slot == WORD else ""
    if name == "get":
        result = Reg(slot, type=item)
        code.emit(f"array_get{suffix}", Def(result), Use(array), layout, *operands, span=span)
        return code.local(result, item, span)
    value = values[-1]
    code.check(value, type_of(call.args[-1]), item, span)
    held = code.as_class(value, slot, span)
    operands.append(Use(held) if slot == WORD else Take(held))
    result = Reg(OBJECT, type=type_of(call))
    code.emit(f"array_{name}{suffix}", Def(result), Take(array), layout, *operands, span=span)
    return result
