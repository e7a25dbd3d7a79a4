"""Passes over quantized networks, by TVM's names."""

from __future__ import annotations

from relayvm.relay.namespace.transform import Pass
from relayvm.relay.pass_table import PassRow
from relayvm.relay.transform import table_pass

_LEGALIZE = PassRow(
    "Legalize",
    "qnn_legalize",
    "Look functions of quantized numbers up in tables.",
    opt_level=1,
    is_function_pass=True,
)
_CANONICALIZE = PassRow(
    "CanonicalizeOps",
    "qnn_canonicalize",
    "Write quantized operators as operators on integers.",
    opt_level=1,
    is_function_pass=True,
)


def Legalize() -> Pass:
    """Return the pass that looks functions of quantized numbers up in tables."""
    return table_pass(_LEGALIZE)


def CanonicalizeOps() -> Pass:
    """Return the pass that writes quantized operators as operators on integers."""
    return table_pass(_CANONICALIZE)


__all__ = ["CanonicalizeOps", "Legalize"]
