"""Operators in pickles: by name where they are rows of the table, else by where they are defined,
as Python does it for functions and classes.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from relayvm.base.diagnostics import error
from relayvm.ops import OPS
from relayvm.ops.operator import Operator

WAY_OUT = (
    "define it at the top level of a module that can be imported, or keep the program as JSON: "
    "`tvm.ir.load_json(text, operators=[...])`"
)


def reduced(op: Operator) -> tuple[Callable[..., Operator], tuple[str, ...]]:
    """Return how a pickle finds an operator again.

    Raises RelayError `bad-operator` for one that its module does not have under its name.
    """
    if OPS.get(op.name) is op:
        return row_of_table, (op.name,)
    place = place_of(op)
    if place is None:
        where = f"{op.rule.__module__}.{op.rule.__qualname__}"
        message = f"operator `{op.name}` cannot be pickled: it is not found as `{where}`"
        raise error("bad-operator", message, help=WAY_OUT)
    return row_of_module, (op.name, *place)


def place_of(op: Operator) -> tuple[str, str] | None:
    """Return the module that defines an operator and its name there; None if it is not there."""
    module, path = op.rule.__module__, op.rule.__qualname__
    return (module, path) if _at(module, path) is op else None


def row_of_table(name: str) -> Operator:
    """Return an operator of the table; raises RelayError `unknown-operator`."""
    if name not in OPS:
        raise error("unknown-operator", f"there is no operator `{name}`")
    return OPS[name]


def row_of_module(name: str, module: str, path: str) -> Operator:
    """Return an operator that a module defines; raises RelayError `unknown-operator`."""
    found = _at(module, path)
    if not isinstance(found, Operator) or found.name != name:
        message = f"operator `{name}` is needed, but `{module}.{path}` is not found here"
        raise error("unknown-operator", message, help=WAY_OUT)
    return found


def _at(module: str, path: str) -> Any:
    """Return what a module has under a dotted name, or None."""
    try:
        found: Any = import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return None
    return found
