"""Lowerings of the control instructions: branches, calls, returns, kernels, traps.

A call hands on the state less one call that may be nested, and gets it back with the fuel that is
left; a tail call is a jump that the stack does not see. Whoever is called counts the step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from relayvm.base.abi import Access
from relayvm.vm.jit import kernels
from relayvm.vm.jit.objects import tag_of
from relayvm.vm.jit.writer import (
    KNOWN_TRAP,
    MOST_ARGUMENTS,
    MOST_RESULTS,
    Writer,
    parameter_registers,
    result_type,
)
from relayvm.vm.program import Instr

_CELL = 2
_KIND_OFFSET = 6
_WORD = 1 << 32


def enter(w: Writer) -> None:
    """Write what a function begins with, and each round of its loop: a step is taken.

    The end of a slice is left to another function, which begins this one anew: without calls up to
    here, what returns at once needs no frame.
    """
    if w.first_block is not None:
        _tell(w, "entered", f"i32 {w.index}", "i64 %given")
    w.do("br label %top")
    w.block("top")
    state = _take_step(w)
    with w.aside("safepoint"):
        if w.first_block is None:
            _leave_by_call(w, f"@{safepoint_name(w.index)}", [w.load(r) for r in w.parameters])
        else:  # a function that is entered twice would count twice
            new = w.helper("safepoint", "i64", f"i64 {state}")
            w.do(f"store i64 {new}, ptr %state")
            again = w.value(f"icmp sge i64 {new}, 0")
            w.branch(again, "begin", w.trap(KNOWN_TRAP, 0), likely=True)
    w.block("begin")


def _take_step(w: Writer, more: str = "") -> str:
    """End the block with a step, to the first instruction or the safepoint; return the state.

    A round of a loop ends with a step of its own, which all its tail calls share: a loop that ends
    with its only jump, in a line of the cache, runs at a cycle a round where one that jumps back to
    the step at its top needs two.
    """
    before = w.value("load i64, ptr %state")
    state = w.value(f"add i64 {before}, {-_WORD}")
    w.do(f"store i64 {state}, ptr %state")
    go_on = w.value(f"icmp sge i64 {state}, 0")
    w.do(f"br i1 {go_on}, label %begin, label %safepoint, !prof !1{more}")
    return state


def safepoint_name(index: int) -> str:
    """Return what the function is called that a function goes to at the end of a slice."""
    return f"safepoint{index}"


def begin_anew(w: Writer) -> None:
    """Write that function: after the safepoint, the step is taken again by where it came from."""
    new = w.helper("safepoint", "i64", "i64 %given")
    w.do(f"store i64 {new}, ptr %state")
    w.expect(w.value(f"icmp sge i64 {new}, 0"), w.trap(KNOWN_TRAP, 0))
    w.do(f"store i64 {w.value(f'add i64 {new}, {_WORD}')}, ptr %state")
    _leave_by_call(w, f"@f{w.index}", [w.load(r) for r in w.parameters])


def _tell(w: Writer, name: str, *arguments: str) -> None:
    """Tell the profile where control is."""
    w.call(w.host.calls[name], "void", arguments)


# --- jumps ----------------------------------------------------------------------------------------


def _goto(w: Writer, instr: Instr) -> None:
    w.do(f"br label %{instr.operands[0]}")


def _branch_false(w: Writer, instr: Instr) -> None:
    condition, target = (str(operand) for operand in instr.operands)
    on = w.name("on")
    w.branch(w.value(f"icmp ne i64 {w.load(condition)}, 0"), on, target)
    w.block(on)


def _switch_tag(w: Writer, instr: Instr) -> None:
    src, type_, targets = instr.operands
    assert isinstance(type_, int) and isinstance(targets, tuple)
    tag, _ = tag_of(w, str(src), type_)
    wrong = w.name("wrong")
    cases = " ".join(f"i32 {i}, label %{target}" for i, target in enumerate(targets))
    w.do(f"switch i32 {tag}, label %{wrong} [ {cases} ]")
    with w.aside(wrong):
        code = w.helper("wrong_layout", "i32", f"i32 {type_}")
        w.do(f"br label %{w.trap(code)}")


def _trap(w: Writer, instr: Instr) -> None:
    code = w.helper("named", "i32", f"i32 {instr.operands[0]}")
    w.do(f"br label %{w.trap(code)}")


# --- calls ----------------------------------------------------------------------------------------


def leave(w: Writer, values: Sequence[str], state: str) -> None:
    """Return words and the state."""
    for i, value in enumerate(values[MOST_RESULTS:], MOST_RESULTS):
        results = w.of_machine("results", "ptr")
        w.do(f"store i64 {value}, ptr {w.address(results, 8 * i)}")
    kind = result_type(len(values))
    if not values:
        w.do(f"ret i64 {state}")
        return
    whole = "undef"
    for i, value in enumerate([*values[:MOST_RESULTS], state]):
        whole = w.value(f"insertvalue {kind} {whole}, i64 {value}, {i}")
    w.do(f"ret {kind} {whole}")


def _return(w: Writer, instr: Instr) -> None:
    (registers,) = instr.operands
    assert isinstance(registers, tuple)
    leave(w, [w.load(r) for r in registers], w.value("load i64, ptr %state"))


def pass_arguments(w: Writer, state: str, words: Sequence[str]) -> str:
    """Return the text of arguments; those that are too many go through the machine."""
    for i, word in enumerate(words[MOST_ARGUMENTS:], MOST_ARGUMENTS):
        gather = w.of_machine("gather", "ptr")
        w.do(f"store i64 {word}, ptr {w.address(gather, 8 * i)}")
    return ", ".join(["ptr %m", f"i64 {state}", *(f"i64 {x}" for x in words[:MOST_ARGUMENTS])])


def _check_depth(w: Writer) -> str:
    """Go on where a call may be nested, by depth and by stack; return the state."""
    state = w.value("load i64, ptr %state")
    stack = w.value("call i64 @llvm.read_register.i64(metadata !3)")
    limit = w.of_machine("limit", "i64", "")
    deeper, ready = w.name("deeper"), w.name("ready")
    depth = w.value(f"trunc i64 {state} to i32")
    w.expect(w.value(f"icmp ne i32 {depth}, 0"), deeper)
    w.branch(w.value(f"icmp uge i64 {stack}, {limit}"), ready, deeper, likely=True)
    with w.aside(deeper):
        code = w.helper("deeper", "i32", f"i64 {state}", f"i64 {stack}")
        w.branch(w.value(f"icmp eq i32 {code}, 0"), ready, w.trap(code), likely=True)
    w.block(ready)
    return state


def _consumed(registers: Sequence[str], classes: str) -> set[str]:
    return {r for r, letter in zip(registers, classes) if letter == "o"}


def _call_function(w: Writer, function: str, words: list[str], dst: Sequence[str]) -> None:
    """Call, look for a trap, take the results. `full` must be what the call leaves."""
    state = w.value(f"sub i64 {w.value('load i64, ptr %state')}, 1")
    kind = result_type(len(dst))
    arguments = pass_arguments(w, state, words)
    result = w.value(f"call tailcc {kind} {function}({arguments})")
    last = min(len(dst), MOST_RESULTS)
    left = w.value(f"extractvalue {kind} {result}, {last}") if dst else result
    w.expect(w.value(f"icmp sge i64 {left}, 0"), w.trap("0", w.next_unit - len(dst) - 2))
    back = w.value(f"add i64 {left}, 1")
    w.do(f"store i64 {back}, ptr %state")
    for i, register in enumerate(dst):
        if i < MOST_RESULTS:
            word = w.value(f"extractvalue {kind} {result}, {i}")
        else:
            results = w.of_machine("results", "ptr")
            word = w.value(f"load i64, ptr {w.address(results, 8 * i)}")
        w.store(register, word)
    if w.first_block is not None:
        _tell(w, "returned", f"i64 {back}")


def _call(w: Writer, instr: Instr) -> None:
    callee, args, dst = instr.operands
    assert isinstance(callee, int) and isinstance(args, tuple) and isinstance(dst, tuple)
    _check_depth(w)
    words = [w.load(r) for r in args]
    w.empty(_consumed(args, w.program.functions[callee].params))
    _call_function(w, f"@f{callee}", words, dst)


def _closure_code(w: Writer, closure: str, signature: int) -> str:
    """Return the code of a closure with this signature; trap for any other value."""
    place = w.pointer(w.load(closure))
    wrong, cell = w.name("wrong"), w.name("cell")
    kind = w.value(f"load i8, ptr {w.address(place, _KIND_OFFSET)}")
    w.branch(w.value(f"icmp eq i8 {kind}, {_CELL}"), cell, wrong, likely=True)
    w.block(cell)
    offsets = w.host.offsets
    shape = w.value(f"load ptr, ptr {w.address(place, offsets['shape'])}")
    at = w.address(shape, offsets["layout_signature"])
    found = w.value(f"zext i16 {w.value(f'load i16, ptr {at}')} to i32")
    w.expect(w.value(f"icmp eq i32 {found}, {signature}"), wrong)
    with w.aside(wrong):
        code = w.helper("not_callable", "i32")
        w.do(f"br label %{w.trap(code)}")
    code = "layout_native" if w.first_block is None else "layout_profiled"
    return w.value(f"load ptr, ptr {w.address(shape, offsets[code])}")


def _call_closure(w: Writer, instr: Instr) -> None:
    closure, signature, args, dst = instr.operands
    assert isinstance(closure, str) and isinstance(signature, int)
    assert isinstance(args, tuple) and isinstance(dst, tuple)
    function = _closure_code(w, closure, signature)
    _check_depth(w)
    words = [w.load(r) for r in (closure, *args)]
    w.empty({closure} | _consumed(args, w.program.signatures[signature].params))
    _call_function(w, function, words, dst)


def _tail_call(w: Writer, instr: Instr) -> None:
    callee, args = instr.operands
    assert isinstance(callee, int) and isinstance(args, tuple)
    words = [w.load(r) for r in args]
    if callee != w.index:
        _leave_by_call(w, f"@f{callee}", words)
        return
    for register, word in zip(parameter_registers(w.code.params), words):
        w.store(register, word)
    if w.first_block is not None:
        _tell(w, "repeated")
        w.do("br label %top")
        return
    w.do("br label %again")
    if not w.repeats:
        w.repeats = True
        with w.aside("again"):
            _take_step(w, ", !llvm.loop !4")


def _leave_by_call(w: Writer, function: str, words: list[str]) -> None:
    arguments = pass_arguments(w, w.value("load i64, ptr %state"), words)
    kind = result_type(len(w.code.results))
    result = w.value(f"musttail call tailcc {kind} {function}({arguments})")
    w.do(f"ret {kind} {result}")


def _tail_call_closure(w: Writer, instr: Instr) -> None:
    closure, signature, args = instr.operands
    assert isinstance(closure, str) and isinstance(signature, int) and isinstance(args, tuple)
    function = _closure_code(w, closure, signature)
    _leave_by_call(w, function, [w.load(r) for r in (closure, *args)])


# --- kernels --------------------------------------------------------------------------------------


def _kernel(w: Writer, instr: Instr) -> None:
    k, inputs, outputs = instr.operands
    _call_kernel(w, k, 0, inputs, outputs)


def _kernel_reuse(w: Writer, instr: Instr) -> None:
    k, given, inputs, outputs = instr.operands
    _call_kernel(w, k, given, inputs, outputs)


def _call_kernel(w: Writer, k: Any, given: Any, inputs: Any, outputs: Any) -> None:
    row = w.program.kernels[k].signature
    if not w.inline or w.host.is_stress or not kernels.is_fixed(row, given):
        _call_by_body(w, k, given, inputs, outputs)
        return
    slow, done = w.name("slow"), w.name("done")
    full = w.full
    kernels.call(w, k, given, inputs, outputs, slow)
    w.do(f"br label %{done}")
    after, w.full = w.full, full
    with w.aside(slow):
        _call_by_body(w, k, given, inputs, outputs)
        w.do(f"br label %{done}")
    assert w.full == after
    w.block(done)


def _call_by_body(w: Writer, k: Any, given: Any, inputs: Any, outputs: Any) -> None:
    """The operands stand in a list, inputs first, of which the C function gets the places."""
    assert w.full is not None
    w.store_list(inputs)
    w.list_place(len(inputs) + len(outputs))
    fuel = w.address("%m", w.host.offsets["fuel"])
    state = w.value("load i64, ptr %state")
    w.do(f"store i64 {w.value(f'ashr i64 {state}, 32')}, ptr {fuel}")
    w.empty({r for i, r in enumerate(inputs) if i < 32 and given >> i & 1})
    places = (f"ptr @places_0_{len(inputs)}", f"ptr @places_{len(inputs)}_{len(outputs)}")
    w.places |= {(0, len(inputs)), (len(inputs), len(outputs))}
    index = w.host.calls["kernel"]
    arguments = [f"i32 {k}", f"i32 {given}", *places, "ptr %list"]
    code = w.call(index, "i32", arguments)
    w.expect(w.value(f"icmp eq i32 {code}, 0"), w.trap(KNOWN_TRAP))
    w.load_list(outputs, len(inputs))
    operands = w.program.kernels[k].signature.outputs
    for register, operand in zip(outputs, operands):
        if operand.access is not Access.SCALAR:
            w.full = w.full | {register}
    _take_fuel(w, fuel, state)


def _take_fuel(w: Writer, fuel: str, before: str) -> None:
    left = w.value(f"load i64, ptr {fuel}")
    depth = w.value(f"and i64 {before}, {_WORD - 1}")
    state = w.value(f"or i64 {w.value(f'shl i64 {left}, 32')}, {depth}")
    w.do(f"store i64 {state}, ptr %state")
    spent = w.name("spent")
    w.expect(w.value(f"icmp sge i64 {left}, 0"), spent)
    on = w.lines.pop().removesuffix(":")
    with w.aside(spent):
        new = w.helper("settle", "i64", f"i64 {state}")
        w.do(f"store i64 {new}, ptr %state")
        trap = w.trap(KNOWN_TRAP, w.next_unit)
        w.branch(w.value(f"icmp sge i64 {new}, 0"), on, trap, likely=True)
    w.block(on)


CONTROL: dict[str, Callable[[Writer, Instr], None]] = {
    "goto": _goto,
    "branch_false": _branch_false,
    "switch_tag": _switch_tag,
    "trap": _trap,
    "return": _return,
    "call": _call,
    "tail_call": _tail_call,
    "call_closure": _call_closure,
    "tail_call_closure": _tail_call_closure,
    "kernel": _kernel,
    "kernel_reuse": _kernel_reuse,
}
