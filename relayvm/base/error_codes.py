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
}
