"""The table of error codes: each with what it means and the way out, as shown by `relayvm explain CODE`."""

from __future__ import annotations

ERROR_CODES: dict[str, str] = {
    "syntax": (
        "The text is not Relay.\n\n"
        "The carets stand under the token that cannot come at this place; the message lists what can. "
        "`relayvm/ir/grammar.md` holds the whole grammar."
    ),
    "unknown-target": (
        "A target names a device kind and, optionally, its CPU.\n\nKnown is `cpu`, with `-mtriple=`, `-mcpu=` and `-mattr=` as LLVM spells them, for example `cpu -mcpu=skylake-avx512`."
    ),
    "bad-setting": (
        "An environment variable of RelayVM has a value that cannot be read.\n\n`relayvm settings` lists each with its default and meaning."
    ),
    "shape-mismatch": (
        "Sizes that must agree are different.\n\n"
        "The message names both axes and both sizes. A size written `?` or as a symbol is compared when the program runs."
    ),
    "dtype-mismatch": (
        "An operand has an element type that the operator does not take, or two operands differ in it.\n\n"
        "Nothing is converted silently: write `cast(x, dtype=\"float32\")`."
    ),
    "type-mismatch": (
        "A value of one type stands where another is required.\n\n"
        "The message names both types as the program spells them."
    ),
    "wrong-arity": (
        "A call has more or fewer arguments than what it calls takes.\n\n"
        "The message names the parameters."
    ),
    "bad-attribute": (
        "An attribute of an operator is unknown, missing, or has a value that is not allowed.\n\n"
        "`docs/reference/operators.md` lists the attributes of each operator with their defaults."
    ),
    "bad-axis": (
        "An axis is outside the rank of the tensor, or is named twice.\n\n"
        "Axes count from 0; negative ones count from the end, -1 being the last."
    ),
}
