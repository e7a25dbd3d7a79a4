"""A whole program as one LLVM module: its functions, and what enters them from C."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relayvm.vm.isa import ISA
from relayvm.vm.jit import control, remainders, words
from relayvm.vm.jit.boxes import BOXES
from relayvm.vm.jit.host import Host
from relayvm.vm.jit.kernels import shape_name
from relayvm.vm.jit.objects import OBJECTS
from relayvm.vm.jit.remainders import REMAINDERS
from relayvm.vm.jit.splice import declaration, inlined_text, kernels_module
from relayvm.vm.jit.writer import (
    INVARIANT,
    MOST_ARGUMENTS,
    MOST_RESULTS,
    PENDING,
    Writer,
    result_type,
)
from relayvm.vm.program import FunctionCode, Instr, Program, units

# LLVM's time grows with the square of a function's size: larger ones are compiled without effort,
# and so is the machine code of all others beside them, as LLVM chooses that for a whole module.
MOST_OPTIMISED = 2000
# Stack that a function and the C code below it may use before the next look at the limit.
_C_MARGIN_BYTES = 256 * 1024
_BYTES_PER_INSTRUCTION = 256

_ATTRIBUTES = """attributes #0 = { nounwind }
attributes #1 = { nounwind noinline optnone }
attributes #2 = { nounwind noinline cold }
"""

_PLACED = {**OBJECTS, **BOXES, **REMAINDERS}
INLINE = frozenset(words.WORDS) | frozenset(_PLACED) | frozenset(control.CONTROL)


def margin_bytes(program: Program) -> int:
    """Return the stack that any function may use unasked."""
    most = max((len(f.code) + f.words + f.owned for f in program.functions), default=0)
    return _C_MARGIN_BYTES + _BYTES_PER_INSTRUCTION * most


def is_large(function: FunctionCode) -> bool:
    """Tell whether a function is too large to be optimised."""
    return sum(instr.name != "label" for instr in function.code) > MOST_OPTIMISED


def blocks(function: FunctionCode) -> list[range]:
    """Return the instructions of each block, by index: control enters at the first and leaves
    behind the last, which alone may be one of control.
    """
    found: list[range] = []
    first = 0
    for i, instr in enumerate(function.code):
        is_label = instr.name == "label"
        if is_label or ISA[instr.name].control:
            end = i if is_label else i + 1
            if end > first:
                found.append(range(first, end))
            first = i + 1
    if len(function.code) > first:
        found.append(range(first, len(function.code)))
    return found


def module_text(
    program: Program,
    host: Host,
    inline: bool = True,
    profiled: bool = False,
    texts: Mapping[int, str] | None = None,
) -> tuple[str, str]:
    """Return the module, and that of the kernels of `texts` which it calls by their functions.

    Without `inline` all but control is done by the bodies in C. `profiled` code counts its blocks,
    in the order of functions and `blocks`, and tells the profile of each call.
    """
    places: set[tuple[int, int]] = set()
    shapes: set[tuple[int, ...]] = set()
    called: set[int] = set()
    parts = [f'target triple = "{host.triple}"\n', words.declarations()]
    parts.append(remainders.declarations())
    parts.append("declare i64 @llvm.read_register.i64(metadata)\n")
    count = 0
    for index, function in enumerate(program.functions):
        w = Writer(program, index, host, inline, count if profiled else None, texts)
        count += len(blocks(function)) if profiled else 0
        parts.append(_function_text(w))
        if not profiled:
            parts.append(_safepoint_text(Writer(program, index, host)))
        places |= w.places
        shapes |= w.shapes
        called |= w.called
    for shape in sorted({_shape(function) for function in program.functions}):
        parts.append(_enter_text(*shape, host))
    parts += [_places_text(*pair) for pair in sorted(places)]
    parts += [_shape_text(dims) for dims in sorted(shapes)]
    parts.append(_ATTRIBUTES)
    parts.append("!0 = !{}\n")
    parts.append('!1 = !{!"branch_weights", i32 1000000, i32 1}\n')
    parts.append('!2 = !{!"branch_weights", i32 1, i32 1000000}\n')
    parts.append(f'!3 = !{{!"{host.stack_register}"}}\n')
    parts.append('!4 = distinct !{!4, !{!"llvm.loop.align", i32 64}}\n')
    functions = {k: inlined_text(k, (texts or {})[k]) for k in sorted(called)}
    parts += [declaration(function) for function in functions.values()]
    return "\n".join(parts), kernels_module(functions.values(), host.triple)


def _shape(function: FunctionCode) -> tuple[int, int]:
    return len(function.params), len(function.results)


def enter_name(function: FunctionCode) -> str:
    """Return the symbol of what enters a function from C."""
    return "enter_{}_{}".format(*_shape(function))


def _places_text(first: int, count: int) -> str:
    items = [count, *range(first, first + count)]
    signed = (f"i16 {i - (1 << 16) if i >= 1 << 15 else i}" for i in items)
    kind = f"[{len(items)} x i16]"
    return f"@places_{first}_{count} = internal constant {kind} [{', '.join(signed)}], align 2\n"


# --- functions ------------------------------------------------------------------------------------


def _shape_text(dims: tuple[int, ...]) -> str:
    items = ", ".join(f"i64 {d}" for d in dims)
    return f"@{shape_name(dims)} = internal constant [{len(dims)} x i64] [{items}], align 8\n"


def _function_text(w: Writer) -> str:
    function = w.code
    w.full = {r for r in w.parameters if r[0] == "o"}
    control.enter(w)
    _write_code(w)
    return _whole_text(w, f"f{w.index}", "#1" if is_large(function) else "#0")


def _safepoint_text(w: Writer) -> str:
    w.full = {r for r in w.parameters if r[0] == "o"}
    control.begin_anew(w)
    return _whole_text(w, control.safepoint_name(w.index), "#2")


def _whole_text(w: Writer, name: str, attributes: str) -> str:
    function = w.code
    w.write_leaving()
    kind = result_type(len(function.results))
    names = [f"i64 %a{i}" for i in range(min(len(w.parameters), MOST_ARGUMENTS))]
    head = f"define hidden tailcc {kind} @{name}({', '.join(['ptr %m, i64 %given', *names])})"
    entry = _entry_lines(w)
    pending = "pending:\n  ret " + _pending(len(function.results))
    body = "\n".join([*entry, *w.lines, *w.cold, pending])
    return f"{head} {attributes} {{\nentry:\n{body}\n}}\n"


def _pending(results: int) -> str:
    if not results:
        return f"i64 {PENDING}"
    undefined = ["i64 undef"] * min(results, MOST_RESULTS)
    return f"{result_type(results)} {{ {', '.join([*undefined, f'i64 {PENDING}'])} }}"


def _entry_lines(w: Writer) -> list[str]:
    banks = (("w", w.code.words), ("o", w.code.owned), ("b", w.code.borrowed))
    lines = [f"  %{letter}{i} = alloca i64" for letter, count in banks for i in range(count)]
    lines += ["  %state = alloca i64", "  %out = alloca i64"]
    lines += ["  %unit = alloca i32", "  %code = alloca i32"]
    lines += [f"  %{name} = alloca i64" for name in sorted(w.locals)]
    lines.append(f"  %list = alloca [{w.list_words} x i64]")
    lines.append("  store i64 %given, ptr %state")
    for i, register in enumerate(w.parameters[:MOST_ARGUMENTS]):
        lines.append(f"  store i64 %a{i}, ptr %{register}")
    more = w.parameters[MOST_ARGUMENTS:]
    if more:
        lines.append(f"  %gather.at = getelementptr i8, ptr %m, i64 {w.host.offsets['gather']}")
        lines.append(f"  %gather = load ptr, ptr %gather.at{INVARIANT}")
    for i, register in enumerate(more, MOST_ARGUMENTS):
        lines.append(f"  %g{i}.at = getelementptr i8, ptr %gather, i64 {8 * i}")
        lines.append(f"  %g{i} = load i64, ptr %g{i}.at")
        lines.append(f"  store i64 %g{i}, ptr %{register}")
    return lines


def _write_code(w: Writer) -> None:
    waiting: dict[str, set[str]] = {}
    counters: dict[int, int] = {}
    if w.first_block is not None:
        counters = {b.start: i for i, b in enumerate(blocks(w.code), w.first_block)}
    for index, instr in enumerate(w.code.code):
        if instr.name == "label":
            label = str(instr.operands[0])
            if w.full is not None:
                waiting.setdefault(label, w.full)
                w.do(f"br label %{label}")
            w.full = waiting.get(label)
            if w.full is not None:
                w.block(label)
            continue
        w.unit, w.next_unit = w.next_unit, w.next_unit + units(instr)
        if w.full is not None:
            if index in counters:
                _count_block(w, counters[index])
            _write(w, instr, waiting)


def _count_block(w: Writer, block: int) -> None:
    profile = w.of_machine("profile", "ptr")
    hits = w.value(f"load ptr, ptr {w.address(profile, w.host.offsets['profile_hits'])}")
    place = w.address(hits, 8 * block)
    count = w.value(f"load i64, ptr {place}")
    w.do(f"store i64 {w.value(f'add i64 {count}, 1')}, ptr {place}")


def _write(w: Writer, instr: Instr, waiting: dict[str, set[str]]) -> None:
    row = ISA[instr.name]
    if row.control:
        control.CONTROL[instr.name](w, instr)
        assert w.full is not None
        for operand, value in zip(row.operands, instr.operands):
            if operand.kind.name in ("label", "labels"):
                labels = (value,) if isinstance(value, str) else value
                for label in labels:  # type: ignore[union-attr]
                    waiting.setdefault(str(label), w.full)
        filled = _filled(row.operands, instr)
        w.full = None if row.ends else w.full | filled
        return
    consumed, filled = _effects(w, instr)
    assert w.full is not None
    w.full = w.full - consumed
    lowering = words.WORDS.get(instr.name)
    if lowering is not None and words.needs_half(instr.name) and not w.host.has_half:
        lowering = None
    if w.inline and lowering is not None:
        dst, *sources = instr.operands
        values = [w.load(s) if isinstance(s, str) else str(s) for s in sources]
        w.store(str(dst), lowering(w, *values))
    elif w.inline and instr.name in _PLACED:
        _PLACED[instr.name](w, instr)
    else:
        w.body(instr)
    w.full |= filled


def _filled(operands: Any, instr: Instr) -> set[str]:
    """Return the owned registers that a call fills."""
    found: set[str] = set()
    for operand, value in zip(operands, instr.operands):
        if operand.kind.name == "results":
            found |= {r for r in value if r[0] == "o"}  # type: ignore[union-attr]
    return found


def _effects(w: Writer, instr: Instr) -> tuple[set[str], set[str]]:
    """Return the owned registers that an instruction empties and fills."""
    consumed: set[str] = set()
    filled: set[str] = set()
    for operand, value in zip(ISA[instr.name].operands, instr.operands):
        if operand.kind.access == "consume":
            consumed.add(str(value))
        elif operand.kind.access == "fill":
            filled.add(str(value))
        elif operand.kind.name == "fields_in":
            consumed |= {r for r in value if r[0] == "o"}  # type: ignore[union-attr]
        elif operand.kind.name == "fields_out":
            filled |= {r for r in value if r[0] == "o"}  # type: ignore[union-attr]
    return consumed, filled


# --- from C ---------------------------------------------------------------------------------------


def _enter_text(params: int, results: int, host: Host) -> str:
    """Return what calls functions of this shape: arguments and results stand in memory."""
    lines = []
    arguments = ["ptr %m", "i64 %state"]
    if params > MOST_ARGUMENTS:
        lines.append(f"  %gather.at = getelementptr i8, ptr %m, i64 {host.offsets['gather']}")
        lines.append("  %gather = load ptr, ptr %gather.at")
    for i in range(params):
        lines.append(f"  %p{i} = getelementptr i64, ptr %args, i64 {i}")
        lines.append(f"  %a{i} = load i64, ptr %p{i}")
        if i < MOST_ARGUMENTS:
            arguments.append(f"i64 %a{i}")
        else:
            lines.append(f"  %g{i} = getelementptr i64, ptr %gather, i64 {i}")
            lines.append(f"  store i64 %a{i}, ptr %g{i}")
    kind = result_type(results)
    lines.append(f"  %r = call tailcc {kind} %code({', '.join(arguments)})")
    if results > MOST_RESULTS:
        lines.append(f"  %more.at = getelementptr i8, ptr %m, i64 {host.offsets['results']}")
        lines.append("  %more = load ptr, ptr %more.at")
    for i in range(results):
        lines.append(f"  %q{i} = getelementptr i64, ptr %results, i64 {i}")
        if i < MOST_RESULTS:
            lines.append(f"  %x{i} = extractvalue {kind} %r, {i}")
        else:
            lines.append(f"  %m{i} = getelementptr i64, ptr %more, i64 {i}")
            lines.append(f"  %x{i} = load i64, ptr %m{i}")
        lines.append(f"  store i64 %x{i}, ptr %q{i}")
    if results:
        last = min(results, MOST_RESULTS)
        lines.append(f"  %left = extractvalue {kind} %r, {last}\n  ret i64 %left")
    else:
        lines.append("  ret i64 %r")
    head = f"define hidden i64 @enter_{params}_{results}"
    parameters = "(ptr %m, ptr %code, i64 %state, ptr %args, ptr %results) #0"
    return f"{head}{parameters} {{\n" + "\n".join(lines) + "\n}\n"
