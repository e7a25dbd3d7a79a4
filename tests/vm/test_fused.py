"""Each fused instruction is found where its expansion stands, and does what that does."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from relayvm.base.dtypes import DTYPES, INT64, DType
from relayvm.vm.assembly.trace import Tracer
from relayvm.vm.fused import FUSED, Fused
from relayvm.vm.library import ffi, lib
from relayvm.vm.machine import VirtualMachine
from tests.vm.programs import INT, entry, executable
from tests.vm.test_word_instructions import samples

WORDS = 6
COUNTER = 14  # units of what counts the rounds of a loop
BY_GROUP = {"words": [], "again": [], "turn": [], "return": [], "call": [], "cells": []}


def group(row: Fused) -> str:
    last = row.parts[-1].instruction
    if row.repeats:
        return "again" if row.in_place else "turn"
    if last.name == "return":
        return "return"
    if last.group == "cells":
        return "cells"
    return "call" if "call" in last.name else "words"


for each in FUSED.values():
    BY_GROUP[group(each)].append(each)


class Quiet(Tracer):
    """A tracer that looks at nothing: traced machines run one instruction at a time."""

    def __init__(self) -> None:
        pass

    def show(self, event) -> None:
        pass


@dataclass
class Text:
    """Assembly text: `wanted` are rows with the function and the unit where each must be found."""

    functions: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    entries: list[dict] = field(default_factory=list)
    wanted: list[tuple[str, int, int]] = field(default_factory=list)

    def function(self, params: str, results: int, owned: int, *lines: str, words: int = 10) -> int:
        number = len(self.functions)
        banks = f"{words} {owned} {params.count('b')}"
        head = f'function f{number} "f{number}" ({", ".join(params)}) -> '
        kinds = ", ".join("w" * results)
        body = "".join(f"    {line}\n" if line[-1] != ":" else f"  {line}\n" for line in lines)
        self.functions.append(f"{head}({kinds}) registers {banks} {{\n{body}}}\n")
        return number

    def entry(self, function: int, params: int, results: int) -> None:
        fields = [INT] * results
        kind = {"kind": "tuple", "text": "(...)", "fields": fields} if results > 1 else INT
        names = tuple(f"r{i}" for i in range(results))
        given = [(f"x{i}", INT) for i in range(params)]
        self.entries.append(entry(function, f"e{len(self.entries)}", given, kind, names))

    def check(self, *runs: tuple[int, ...], dtype: DType = INT64) -> None:
        exe = executable("".join(self.tables + self.functions), self.entries)
        for name, function, unit in self.wanted:
            found = lib.rvm_program_fused(exe.handle, function, unit)
            assert found != ffi.NULL and ffi.string(found).decode() == name, (name, function)
        machines = [VirtualMachine(exe, engine=e) for e in ("interpreter", "interpreter", "jit")]
        machines[1].__dict__["_tracer"] = handle = ffi.new_handle(Quiet())
        lib.rvm_machine_set_trace(machines[1].handle, lib.relayvm_trace, handle)
        for number, row in enumerate(self.entries):
            for values in runs:
                args = values[: len(row["parameters"])]
                told = [(vm.invoke(f"e{number}", *args), vm.stats()) for vm in machines]
                results = [np.asarray(value).tolist() for value, _ in told]
                assert results[0] == results[1], (row, args, results)
                # The sign and the payload of what is no number are nobody's promise.
                plain = [[one_nan(v, dtype) for v in np.ravel(r).tolist()] for r in results]
                assert plain[0] == plain[2], (row, args, results)
                for key in ("steps", "new_cells", "reused_cells"):
                    assert len({stats[key] for _, stats in told}) == 1, (row, args, key)


def assembly(row: Fused, places: dict[str, str], **others: str) -> list[str]:
    """Return the expansion with registers and other operands in the places of their names."""
    lines = []
    for part in row.parts:
        texts = []
        for operand, value in zip(part.instruction.operands, part.operands):
            if value is None:
                texts.append(others[operand.name])
            elif isinstance(value, tuple):
                texts.append(f"({', '.join(places[n] for n in value)})")
            else:
                texts.append(places[value])
        lines.append(f"{part.instruction.name} {', '.join(texts)}")
    return lines


def registers(row: Fused) -> list[str]:
    found = [n for p in row.parts for n, kind, _ in p.items() if kind in ("w", "w_out", "returns")]
    return list(dict.fromkeys(found))


def dtype_of(row: Fused) -> DType:
    shorts = {d.short: d for d in DTYPES}
    return next(
        shorts[p.instruction.name.rsplit("_", 1)[1]]
        for p in row.parts
        if p.instruction.name.rsplit("_", 1)[-1] in shorts
    )


def bits(value, dtype: DType) -> int:
    """Return the word of a value as the machine holds it, as int64."""
    if not dtype.is_float:
        return int(np.int64(np.uint64(int(value) & (2**64 - 1))))
    raw = np.asarray(value, dtype.numpy).view(f"u{dtype.itemsize_bytes}")
    return int(raw.astype(np.uint64).view(np.int64))


def one_nan(word: int, dtype: DType) -> int:
    """Return the word, or one of all those that are no number as the dtype has them."""
    if not dtype.is_float:
        return word
    raw = np.array(word, np.int64).view(np.uint64).astype(f"u{dtype.itemsize_bytes}")
    return -1 if np.isnan(raw.view(dtype.numpy)) else word


def aliases(names: list[str], seed: int) -> list[dict[str, str]]:
    """Return places of the names: all apart, all in one, and some together."""
    rng = np.random.default_rng(seed)
    apart = {n: f"w{i}" for i, n in enumerate(names)}
    some = {n: f"w{rng.integers(2)}" for n in names}
    return [apart, dict.fromkeys(names, "w0"), some]


def runs_of(dtype: DType, count: int) -> list[tuple[int, ...]]:
    rng = np.random.default_rng(3)
    values = [bits(v, dtype) for v in samples(dtype)]
    return [tuple(values[i] for i in rng.integers(len(values), size=WORDS)) for _ in range(count)]


def dtypes_of(name: str) -> list[DType]:
    return list(dict.fromkeys(dtype_of(r) for r in BY_GROUP[name] if len(r.parts) > 1))


def rows_on(name: str, dtype: DType) -> list[Fused]:
    return [r for r in BY_GROUP[name] if len(r.parts) > 1 and dtype_of(r) is dtype]


ALL = ", ".join(f"w{i}" for i in range(WORDS))


@pytest.mark.parametrize("dtype", dtypes_of("words"), ids=str)
def test_rows_of_words_and_branches_do_what_their_parts_do(dtype):
    text = Text()
    constants = [bits(v, dtype) for v in samples(dtype)]
    for seed, row in enumerate(rows_on("words", dtype)):
        for places in aliases(registers(row), seed):
            names = {**places, "k": str(constants[seed % len(constants)] % 2**64), "l": "L"}
            ending = ["word w8, 1", f"return ({ALL}, w8)"]
            if row.parts[-1].instruction.name == "branch_false":
                ending += ["L:", "word w8, 0", f"return ({ALL}, w8)"]
            number = text.function("w" * WORDS, WORDS + 1, 0, *assembly(row, names), *ending)
            text.entry(number, WORDS, WORDS + 1)
            text.wanted.append((row.name, number, 0))
    text.check(*runs_of(dtype, 6), dtype=dtype)


@pytest.mark.parametrize("dtype", dtypes_of("again"), ids=str)
def test_rows_that_repeat_their_function_do_what_their_parts_do(dtype):
    text = Text()
    for seed, row in enumerate([*rows_on("again", dtype), FUSED["tail_call_again"]]):
        for places in aliases(registers(row), seed):
            number = len(text.functions)
            names = {**places, "k": str(bits(3, dtype)), "f": f"f{number}"}
            count = ["branch_false w6, L", "word w7, 1", "subtract_i64 w6, w6, w7"]
            parts = assembly(row, names, args=f"({ALL}, w6)")
            text.function("w" * 7, WORDS, 0, *count, *parts, "L:", f"return ({ALL})")
            text.wanted.append((row.name, number, COUNTER))
            start = text.function(
                "w" * WORDS, WORDS, 0, "word w6, 5", f"tail_call f{number}, ({ALL}, w6)"
            )
            text.entry(start, WORDS, WORDS)
    text.check(*runs_of(dtype, 4), dtype=dtype)


@pytest.mark.parametrize("dtype", dtypes_of("return"), ids=str)
def test_rows_that_return_do_what_their_parts_do(dtype):
    text = Text()
    plain = [r for r in BY_GROUP["return"] if len(r.parts) == 1]
    for seed, row in enumerate([*rows_on("return", dtype), *plain]):
        count = len(row.parts[-1].operands[0])
        for places in aliases(registers(row), seed):
            number = text.function("w" * WORDS, count, 0, *assembly(row, places))
            text.wanted.append((row.name, number, 0))
            text.entry(number, WORDS, count)
            taken = ", ".join(f"w{4 - i}" for i in range(count))
            call = f"call f{number}, ({ALL}), ({taken})"
            text.entry(text.function("w" * WORDS, WORDS, 0, call, f"return ({ALL})"), WORDS, WORDS)
    text.check(*runs_of(dtype, 5), dtype=dtype)


# --- calls and cells -----------------------------------------------------------------------------

CELL = 'layout l0 tuple "box" (w int64)\n'


def gather(params: str, first: int) -> list[str]:
    """Return code that adds what the parameters hold up in w9, and drops the owned ones."""
    lines = ["word w9, 7", "word w8, 3"]
    used = {"w": 0, "o": first, "b": 0}
    for kind in params:
        place = f"{kind}{used[kind]}"
        used[kind] += 1
        if kind != "w":
            lines.append(f"field_word w7, {place}, l0, 0")
            if kind == "o":
                lines.append(f"release {place}")
            place = "w7"
        lines += ["multiply_i64 w6, w9, w8", f"add_i64 w9, w6, {place}"]
    return [*lines, "return (w9)"]


def classes(row: Fused) -> str:
    items = next(v for v in row.parts[-1].operands if isinstance(v, tuple))
    return "".join("w" if n[0] == "x" else n[0] for n in items)


def test_rows_of_calls_do_what_their_parts_do():
    text = Text([], [CELL])
    for row in BY_GROUP["call"]:
        if row.parts[-1].instruction.name != "call":
            continue
        kinds = classes(row)
        callee = text.function(kinds, 1, 4, *gather(kinds, 0))
        objects = [i for i, kind in enumerate(kinds) if kind != "w"]
        places = {f"{k}{i}": f"w{i}" if k == "w" else f"o{i}" for i, k in enumerate(kinds)}
        places |= {"t": "w3", "k": "5", "x": "w4", "a": "w0", "f": f"f{callee}"}
        number = len(text.functions)
        text.wanted.append((row.name, number, 0))
        lent = [f"release o{i}" for i in objects if kinds[i] == "b"]
        text.function(
            "www" + "o" * 3,
            4,
            4,
            *assembly(row, places, dst="(w5)"),
            *lent,
            *(f"release o{i}" for i in range(3) if i not in objects),
            "return (w0, w1, w2, w5)",
        )
        made = [f"cell_new o{i}, l0, (w{i})" for i in range(3)]
        call = f"call f{number}, (w0, w1, w2, o0, o1, o2), (w0, w1, w2, w3)"
        text.entry(text.function("www", 4, 3, *made, call, "return (w0, w1, w2, w3)"), 3, 4)
    text.check((1, 2, 3), (-5, 2**40, 0))


@pytest.mark.parametrize("row", BY_GROUP["turn"], ids=lambda row: row.name)
def test_rows_of_tail_calls_to_themselves_do_what_the_call_does(row):
    """Words and cells are passed on in turn, the first of each from another register."""
    text = Text([], [CELL])
    kinds = classes(row)
    words, cells = kinds.count("w"), kinds.count("o")
    open_, close = ([], []) if words else (["cell_unpack o0, l0, (w0)"], ["cell_new o0, l0, (w0)"])
    test = ["word w9, 0", "greater_i64 w8, w0, w9", "branch_false w8, L"]
    less = ["word w9, 1", *(f"subtract_i64 w{i}, w{i}, w9" for i in range(max(1, words)))]
    away = ["move w5, w0"] * bool(words) + ["move_object o5, o0"] * bool(cells)
    unit = 14 + 6 + 4 * max(1, words) + 3 * len(away) + 5 * len(open_ + close)
    turn = {"w": [f"w{i}" for i in range(1, words)] + ["w5"]}
    turn["o"] = [f"o{i}" for i in range(1, cells)] + ["o5"]
    passed = ", ".join(turn[kind].pop(0) for kind in kinds)
    call = f"tail_call f0, ({passed})"
    lines = [*open_, *test, *less, *close, *away, call, "L:", *close, *gather(kinds, 0)]
    text.function(kinds, 1, 6, *lines)
    text.wanted.append((row.name, 0, unit))
    made = [f"cell_new o{i}, l0, (w{i})" for i in range(cells)]
    used = {"w": iter("012"), "o": iter("012")}
    given = ", ".join(f"{kind}{next(used[kind])}" for kind in kinds)
    text.entry(text.function("www", 1, 3, *made, f"call f0, ({given}), (w3)", "return (w3)"), 3, 1)
    text.check((7, 50, 300), (0, 1, 2))


def test_rows_of_calls_of_closures_do_what_their_parts_do():
    text = Text([], [CELL])
    signatures: dict[str, int] = {}
    layouts: list[str] = []
    for row in BY_GROUP["call"]:
        last = row.parts[-1].instruction.name
        if last == "call":
            continue
        kinds = classes(row)
        s = signatures.setdefault(kinds, len(signatures))
        layout = 1 + len(layouts)
        own = [f"field_word w5, o0, l{layout}, 0", "release o0"]
        body = gather(kinds, 1)
        callee = text.function("o" + kinds, 1, 4, *own, *body[:-1], "add_i64 w9, w9, w5", body[-1])
        layouts.append(
            f'layout l{layout} closure "c" (w int64) function f{callee} signature s{s}\n'
        )
        places = {f"{k}{i}": f"{k}{i}" for i, k in enumerate(kinds)}
        places |= {"c": "o3", "d": "o2", "s": f"s{s}"}
        number = len(text.functions)
        text.wanted.append((row.name, number, 0))
        objects = [i for i, kind in enumerate(kinds) if kind == "o"]
        rest = [f"release o{i}" for i in range(2) if i not in objects]
        parts = assembly(row, places, dst="(w5)")
        keeps = row.parts[0].instruction.name == "retain"
        closure = "o2" if keeps else "o3"
        held = "oooo" if not keeps else "ooo"
        if last == "call_closure":
            rest += ["release o2"]
            text.function("www" + held, 1, 4, *parts, *rest, "return (w5)")
        else:
            # What the tail call does not hand on must be gone before it.
            held = "o" * len(objects)
            places |= {f"o{i}": f"o{n}" for n, i in enumerate(objects)} | {"c": f"o{len(objects)}"}
            text.function("www" + held + "o", 1, 4, *assembly(row, places))
            closure = f"o{len(objects)}"
            held += "o"
        made = [f"cell_new {closure}, l{layout}, (w0)"]
        made += [f"cell_new o{i}, l0, (w{i % 3})" for i in range(len(held)) if f"o{i}" != closure]
        given = ", ".join(["w0", "w1", "w2", *(f"o{i}" for i in range(len(held)))])
        text.entry(
            text.function("www", 1, 4, *made, f"call f{number}, ({given}), (w3)", "return (w3)"),
            3,
            1,
        )
    text.tables[:0] = [f"signature s{n} ({', '.join(k)}) -> (w)\n" for k, n in signatures.items()]
    text.tables += layouts
    text.check((1, 2, 3), (-5, 2**40, 0))


@pytest.mark.parametrize("shared", [False, True], ids=["sole", "shared"])
def test_rows_of_cells_do_what_their_parts_do(shared):
    """Each layout is made, taken apart while somebody else holds it or not, and made again."""
    text = Text([], [CELL])
    patterns = [classes(r) for r in BY_GROUP["cells"] if r.name.startswith("cell_new")]
    for layout, kinds in enumerate(patterns, 1):
        dtypes = ["w int64" if k == "w" else "o" for k in kinds]
        text.tables.append(f'layout l{layout} tuple "t{layout}" ({", ".join(dtypes)})\n')
        for keep in (False, True):
            _add_cells(text, layout, kinds, keep, shared)
    text.check((1, 2, 3), (-5, 2**40, 0))


def _add_cells(text: Text, layout: int, kinds: str, keep: bool, shared: bool) -> None:
    fields = ", ".join(f"{k}{i}" for i, k in enumerate(kinds))
    count = len(kinds)
    owned = [i for i, k in enumerate(kinds) if k == "o"]
    suffix = "".join(kinds) or "none"
    made = [f"cell_new o{i}, l0, (w{i})" for i in owned]
    holds = ["retain o4, o3"] if shared else []
    # made: fields in their registers -> the cell; each in a function that begins with the row
    new = text.function(
        "www" + "o" * len(owned),
        0,
        6,
        f"cell_new o5, l{layout}, ({_packed(kinds)})",
        "release o5",
        "return ()",
    )
    text.wanted.append((f"cell_new_{suffix}", new, 0))
    other = "cell_unpack_keep o5, o3, " if keep else "cell_unpack o3, "
    whole = text.function(
        "www",
        3,
        8,
        *made,
        f"cell_new o3, l{layout}, ({fields})",
        *holds,
        f"{other}l{layout}, ({fields})",
        *(
            [f"cell_reuse o3, o5, l{layout}, ({fields})"]
            if keep
            else [f"cell_new o3, l{layout}, ({fields})"]
        ),
        f"cell_unpack o3, l{layout}, ({fields})",
        *(line for i in owned for line in (f"field_word w{i}, o{i}, l0, 0", f"release o{i}")),
        *(["release o4"] if shared else []),
        "return (w0, w1, w2)",
    )
    text.entry(whole, 3, 3)
    unit = sum(5 for _ in owned) + 4 + count + (3 if shared else 0)
    name = f"cell_unpack_{'keep_' if keep else ''}{'x' * count or 'none'}"
    text.wanted.append((name, whole, unit))
    if keep:
        text.wanted.append((f"cell_reuse_{suffix}", whole, unit + 5 + count))


def _packed(kinds: str) -> str:
    """The fields where parameters stand: each class counts for itself."""
    used = {"w": 0, "o": 0}
    names = []
    for kind in kinds:
        names.append(f"{kind}{used[kind]}")
        used[kind] += 1
    return ", ".join(names)


def test_every_row_is_in_one_of_these_groups():
    names = [r.name for rows in BY_GROUP.values() for r in rows]
    assert sorted(names) == sorted(FUSED)
    assert all(len(r.parts) > 1 or r is FUSED["tail_call_again"] for r in BY_GROUP["again"])
