"""The instruction table: one row an instruction, with operands, effect and flags.

Decoder, verifier, dispatch, encoder, assembler, disassembler, documentation and fuzz mutators
are loops over it.
"""

from __future__ import annotations

from dataclasses import dataclass

from relayvm.base.dtypes import COMPUTED, NUMERIC, DType


@dataclass(frozen=True, slots=True)
class Kind:
    """What an operand is and how it is encoded.

    `group` is `register`, `immediate`, `index`, `label` or `list`. `units` is its size in 16-bit
    units; a list takes one unit for its count and one (a label two) for each item. `access` says
    what a register operand does: `read`, `write` (words), `consume`, `fill` (owned), `lend` (an
    owned or borrowed register, only looked at), `borrow` (borrowed register written). `table` names
    the table an index points into. `mark` stands before the number in text.
    """

    name: str
    code: int
    group: str
    units: int
    access: str = ""
    table: str = ""
    mark: str = ""
    doc: str = ""


KINDS: dict[str, Kind] = {}


def _kind(
    name: str,
    group: str,
    units: int,
    doc: str,
    *,
    access: str = "",
    table: str = "",
    mark: str = "",
) -> Kind:
    kind = Kind(name, len(KINDS), group, units, access, table, mark, doc)
    KINDS[name] = kind
    return kind


WORD_IN = _kind("w", "register", 1, "word register, read", access="read")
WORD_OUT = _kind("w_out", "register", 1, "word register, written", access="write")
OWNED_IN = _kind("o_in", "register", 1, "full owned register, emptied", access="consume")
OWNED_OUT = _kind("o_out", "register", 1, "empty owned register, filled", access="fill")
LENT = _kind("ob", "register", 1, "owned or borrowed register, lent", access="lend")
BORROWED_OUT = _kind("b_out", "register", 1, "borrowed register, written", access="borrow")
IMM64 = _kind("imm64", "immediate", 4, "64 bits")
IMM32 = _kind("imm32", "immediate", 2, "32 bits, not negative")
FUNCTION = _kind("function", "index", 1, "function", table="functions", mark="f")
KERNEL = _kind("kernel", "index", 1, "kernel", table="kernels", mark="k")
CONSTANT = _kind("constant", "index", 1, "constant", table="constants", mark="c")
SIGNATURE = _kind("signature", "index", 1, "closure signature", table="signatures", mark="s")
TENSOR_TYPE = _kind("tensor_type", "index", 1, "tensor type", table="tensor_types", mark="t")
CELL = _kind(
    "cell", "index", 1, "layout of a tuple, constructor or closure", table="layouts", mark="l"
)
DATA = _kind(
    "data", "index", 1, "layout of constructor 0 of a data type", table="layouts", mark="l"
)
REF_WORD = _kind(
    "ref_word", "index", 1, "layout of a reference to a word", table="layouts", mark="l"
)
REF_OBJECT = _kind(
    "ref_object", "index", 1, "layout of a reference to an object", table="layouts", mark="l"
)
ARRAY = _kind("array", "index", 1, "layout of an array", table="layouts", mark="l")
ARRAY_WORD = _kind(
    "array_word", "index", 1, "layout of an array of words", table="layouts", mark="l"
)
ARRAY_OBJECT = _kind(
    "array_object", "index", 1, "layout of an array of objects", table="layouts", mark="l"
)
FIELD_WORD = _kind("field_word", "index", 1, "word field of the layout before it", table="fields")
FIELD_OBJECT = _kind(
    "field_object", "index", 1, "object field of the layout before it", table="fields"
)
DTYPE = _kind("dtype", "index", 1, "number of a dtype", table="dtypes", mark="d")
AXIS = _kind("axis", "index", 1, "axis below 8", table="axes")
TRAP = _kind("trap_code", "index", 1, "trap code", table="traps")
LABEL = _kind("label", "label", 2, "unit offset of a later instruction of the function")
WORDS = _kind("words", "list", 0, "word registers, read")
FIELDS_IN = _kind("fields_in", "list", 0, "a register for each field of the layout: word or o_in")
FIELDS_OUT = _kind(
    "fields_out", "list", 0, "a register for each field of the layout: w_out or o_out"
)
ARGUMENTS = _kind("arguments", "list", 0, "a register for each parameter: word, o_in or ob")
RESULTS = _kind("results", "list", 0, "a register for each result: w_out or o_out")
RETURNS = _kind("returns", "list", 0, "a register for each result of this function: word or o_in")
KERNEL_INPUTS = _kind(
    "kernel_inputs", "list", 0, "a register for each input: word if scalar, else ob (o_in if given)"
)
KERNEL_OUTPUTS = _kind(
    "kernel_outputs", "list", 0, "a register for each output: w_out if scalar, else o_out"
)
LABELS = _kind("labels", "list", 0, "a label for each constructor of the data type")


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand: its name in messages and in the effect text, and its kind."""

    name: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Instruction:
    """One row: operands in encoding order and what it does, in register notation.

    `control` instructions have their handler in the interpreter and are the only ones that a JIT
    must lower; every other is a C function `body_<name>`. `traps` says that the body returns a trap
    code, `machine` that it gets the machine. `ends` marks instructions after which control never
    reaches the next one.
    """

    opcode: int
    name: str
    operands: tuple[Operand, ...]
    effect: str
    group: str
    control: bool = False
    traps: bool = False
    machine: bool = False
    ends: bool = False


ISA: dict[str, Instruction] = {}


def _row(group: str, name: str, operands: str, effect: str, flags: str = "") -> None:
    """Add a row; `operands` is `name:kind ...`, `flags` some of `control traps machine ends`."""
    parsed = tuple(Operand(n, KINDS[k]) for n, k in (word.split(":") for word in operands.split()))
    options = dict.fromkeys(flags.split(), True)
    assert name not in ISA, name
    ISA[name] = Instruction(len(ISA), name, parsed, effect, group, **options)


def _moves() -> None:
    row = "moves"
    _row(row, "word", "dst:w_out value:imm64", "dst = value")
    _row(row, "move", "dst:w_out src:w", "dst = src")
    _row(row, "move_object", "dst:o_out src:o_in", "dst = src, src = empty")
    _row(row, "retain", "dst:o_out src:ob", "dst = src with one more count", "machine")
    _row(row, "release", "src:o_in", "drop the count of src", "machine")
    _row(row, "constant", "dst:b_out k:constant", "dst = constant k", "machine")
    _row(row, "borrow", "dst:b_out src:ob", "dst = src, without a count")
    _row(row, "select", "dst:w_out cond:w a:w b:w", "dst = a if cond else b")


def _control() -> None:
    row = "control"
    _row(row, "goto", "target:label", "go to target", "control ends")
    _row(row, "branch_false", "cond:w target:label", "go to target if cond is 0", "control")
    _row(
        row,
        "switch_tag",
        "value:ob type:data targets:labels",
        "go to targets[constructor of value]",
        "control ends",
    )
    _row(row, "trap", "code:trap_code", "stop with this trap", "control ends")
    _row(row, "return", "values:returns", "leave the function with values", "control ends")
    _row(
        row,
        "call",
        "callee:function args:arguments dst:results",
        "dst = callee(args)",
        "control",
    )
    _row(
        row,
        "tail_call",
        "callee:function args:arguments",
        "leave the function with callee(args); itself: a loop",
        "control ends",
    )
    _row(
        row,
        "call_closure",
        "closure:o_in type:signature args:arguments dst:results",
        "dst = closure(args); the closure is its first argument",
        "control",
    )
    _row(
        row,
        "tail_call_closure",
        "closure:o_in type:signature args:arguments",
        "leave the function with closure(args)",
        "control ends",
    )
    _row(
        row,
        "kernel",
        "k:kernel inputs:kernel_inputs outputs:kernel_outputs",
        "outputs = k(inputs)",
        "control",
    )
    _row(
        row,
        "kernel_reuse",
        "k:kernel given:imm32 inputs:kernel_inputs outputs:kernel_outputs",
        "outputs = k(inputs); inputs in the bit set `given` are o_in, their storage may be reused",
        "control",
    )


def _cells() -> None:
    row, both = "cells", "machine traps"
    _row(row, "cell_new", "dst:o_out type:cell fields:fields_in", "dst = cell of fields", both)
    _row(row, "field_word", "dst:w_out src:ob type:cell i:field_word", "dst = src[i]", both)
    _row(
        row,
        "field_borrow",
        "dst:b_out src:ob type:cell i:field_object",
        "dst = src[i], without a count",
        both,
    )
    _row(
        row,
        "field_retain",
        "dst:o_out src:ob type:cell i:field_object",
        "dst = src[i] with one more count",
        both,
    )
    _row(
        row,
        "cell_unpack",
        "src:o_in type:cell dst:fields_out",
        "dst = fields of src, which is dropped; nothing is counted if src is unique",
        both,
    )
    _row(
        row,
        "cell_unpack_keep",
        "memory:o_out src:o_in type:cell dst:fields_out",
        "dst = fields of src, which is dropped; memory = where src was if it was unique, else "
        "nothing",
        both,
    )
    _row(
        row,
        "cell_reuse",
        "dst:o_out memory:o_in type:cell fields:fields_in",
        "dst = cell of fields, in this memory if that has the size",
        both,
    )
    _row(row, "tag", "dst:w_out src:ob type:data", "dst = number of src's constructor", both)


def _references() -> None:
    row, both = "references", "machine traps"
    _row(row, "ref_new_word", "dst:o_out type:ref_word value:w", "dst = reference to value", both)
    _row(row, "ref_new", "dst:o_out type:ref_object value:o_in", "dst = reference to value", both)
    _row(row, "ref_read_word", "dst:w_out ref:ob type:ref_word", "dst = value of ref", both)
    _row(row, "ref_read", "dst:o_out ref:ob type:ref_object", "dst = value of ref, counted", both)
    _row(row, "ref_write_word", "ref:ob type:ref_word value:w", "value of ref = value", both)
    _row(
        row,
        "ref_write",
        "ref:ob type:ref_object value:o_in",
        "value of ref = value; the old one is dropped",
        both,
    )
    _row(
        row,
        "ref_take",
        "dst:o_out ref:ob type:ref_object",
        "dst = value of ref, which becomes empty until written; a shared one keeps it",
        both,
    )


def _arrays() -> None:
    row, both = "arrays", "machine traps"
    _row(row, "array_new", "dst:o_out type:array capacity:w", "dst = empty array with room", both)
    _row(row, "array_length", "dst:w_out src:ob type:array", "dst = elements of src", both)
    for suffix, out, value in (("_word", "w_out", "w"), ("", "o_out", "o_in")):
        kind = "array_word" if suffix else "array_object"
        _row(row, f"array_get{suffix}", f"dst:{out} src:ob type:{kind} i:w", "dst = src[i]", both)
        _row(
            row,
            f"array_set{suffix}",
            f"dst:o_out src:o_in type:{kind} i:w value:{value}",
            "dst = src with src[i] = value, in place if unique",
            both,
        )
        _row(
            row,
            f"array_push{suffix}",
            f"dst:o_out src:o_in type:{kind} value:{value}",
            "dst = src with value at its end, in place if unique",
            both,
        )


def _tensors() -> None:
    row, both = "tensors", "machine traps"
    _row(row, "tensor_dim", "dst:w_out src:ob axis:axis", "dst = size of the axis of src", both)
    _row(row, "tensor_rank", "dst:w_out src:ob", "dst = number of axes of src", both)
    for name, access in (("tensor_view", "ob"), ("tensor_view_take", "o_in")):
        _row(
            row,
            name,
            f"dst:o_out src:{access} dims:words",
            "dst = storage of src with these dims; as many elements or a trap",
            both,
        )
    _row(
        row,
        "slice_view",
        "dst:o_out src:ob begin:w end:w",
        "dst = storage of src[begin:end] along axis 0",
        both,
    )
    _row(
        row,
        "tensor_from_words",
        "dst:o_out type:dtype values:words",
        "dst = tensor of one axis holding values",
        both,
    )
    _row(row, "box_word", "dst:o_out src:w type:dtype", "dst = tensor of rank 0 of src", both)
    _row(row, "unbox_word", "dst:w_out src:ob type:dtype", "dst = element of rank-0 src", both)
    _row(row, "check_dim", "src:ob axis:axis size:w", "trap unless src's axis has this size", both)
    _row(
        row,
        "check_equal",
        "a:w b:w",
        "trap with run-time-shape unless a = b",
        both,
    )
    _row(
        row,
        "tensor_check",
        "src:ob type:tensor_type",
        "trap unless src is a tensor of this dtype, rank and dims",
        both,
    )


ARITHMETIC = {
    "add": "a + b",
    "subtract": "a - b",
    "multiply": "a * b",
    "divide": "a / b, integers toward 0 and 0 for b = 0",
    "floor_divide": "floor of a / b, 0 for integer b = 0",
    "mod": "remainder of a / b with the sign of a, 0 for integer b = 0",
    "floor_mod": "remainder of floor_divide, 0 for integer b = 0",
    "maximum": "greater of a and b, NaN if any is",
    "minimum": "lesser of a and b, NaN if any is",
}
UNARY = {"negative": "-a", "abs": "magnitude of a"}
BITWISE = {"bitwise_and": "a & b", "bitwise_or": "a | b", "bitwise_xor": "a ^ b"}
SHIFTS = {
    "left_shift": "a << b, 0 unless 0 <= b < bits",
    "right_shift": "a >> b, 0 or -1 by the sign of a unless 0 <= b < bits",
}
COMPARISONS = {
    "equal": "a == b",
    "not_equal": "a != b",
    "less": "a < b",
    "less_equal": "a <= b",
    "greater": "a > b",
    "greater_equal": "a >= b",
}
LOGICAL = {"logical_and": "a and b", "logical_or": "a or b", "logical_xor": "a != b"}


def word_name(operation: str, dtype: DType) -> str:
    """Return the name of a word instruction, for example `add_i32`; logical ones have no suffix."""
    return operation if operation.startswith("logical") else f"{operation}_{dtype.short}"


def cast_name(source: DType, target: DType) -> str:
    """Return the name of the instruction that casts a word from `source` to `target`."""
    return f"cast_{source.short}_{target.short}"


def _words() -> None:
    row = "words"

    def binary(operations: dict[str, str], dtype: DType) -> None:
        for name, effect in operations.items():
            _row(row, word_name(name, dtype), "dst:w_out a:w b:w", f"dst = {effect}")

    for dtype in COMPUTED:
        if dtype in NUMERIC:
            binary(ARITHMETIC, dtype)
            for name, effect in UNARY.items():
                _row(row, word_name(name, dtype), "dst:w_out a:w", f"dst = {effect}")
        if not dtype.is_float:
            binary(BITWISE, dtype)
            _row(row, word_name("bitwise_not", dtype), "dst:w_out a:w", "dst = ~a")
        if dtype.is_integer:
            binary(SHIFTS, dtype)
        binary(COMPARISONS, dtype)
    for name, effect in LOGICAL.items():
        _row(row, name, "dst:w_out a:w b:w", f"dst = {effect}")
    _row(row, "logical_not", "dst:w_out a:w", "dst = not a")
    for source in COMPUTED:
        for target in COMPUTED:
            if source is not target:
                effect = f"dst = a as {target.name}"
                _row("casts", cast_name(source, target), "dst:w_out a:w", effect)


_moves()
_control()
_cells()
_references()
_arrays()
_tensors()
_words()

BY_OPCODE: tuple[Instruction, ...] = tuple(ISA.values())
