"""Checks of operators that users bring along: a mistake in one is an error that names it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from relayvm.base.diagnostics import RelayError, error
from relayvm.base.dims import dims_equal
from relayvm.base.source import Span
from relayvm.ir.type_printer import print_type
from relayvm.ir.types import TensorType, TupleType, Type
from relayvm.kernels.compute import Tensor
from relayvm.ops.operator import Operator


def check_custom_operators(operators: Iterable[Operator]) -> tuple[Operator, ...]:
    """Return the rows given besides the table's; raises RelayError `bad-operator` for what is
    none, and for two of one name.
    """
    if isinstance(operators, Operator) or not isinstance(operators, Iterable):
        message = f"`operators` must be a list of operators, not {_shown(operators)}"
        raise error("bad-operator", message)
    rows = tuple(operators)
    names: set[str] = set()
    for row in rows:
        if not isinstance(row, Operator):
            message = f"`operators` holds {_shown(row)}, which is no operator"
            help = "a rule under `@operator(name, fusion=...)` of `relayvm.ops` makes one"
            raise error("bad-operator", message, help=help)
        if row.name in names:
            raise error("bad-operator", f"`operators` holds two operators named `{row.name}`")
        names.add(row.name)
    return rows


def check_computed(op: Operator, promised: Type, computed: object) -> object:
    """Return what `.compute` gave if it has the type that the rule promised."""
    wanted = promised.fields if isinstance(promised, TupleType) else (promised,)
    is_tuple = isinstance(computed, tuple)
    given = computed if isinstance(computed, tuple) else (computed,)
    fits = is_tuple == isinstance(promised, TupleType) and len(given) == len(wanted)
    if fits and all(map(_has_type, given, wanted)):
        return computed
    parts = [_tensor_text(g) for g in given]
    shown = f"({', '.join(parts)})" if is_tuple else parts[0]
    gives = f"`.compute` of operator `{op.name}` gives {shown}"
    raise error("bad-operator", f"{gives}, its rule promises {print_type(promised)}")


def _tensor_text(value: object) -> str:
    if isinstance(value, Tensor):
        return print_type(TensorType(value.shape, value.dtype))
    return _shown(value)


def _has_type(given: object, wanted: Type) -> bool:
    return (
        isinstance(given, Tensor)
        and isinstance(wanted, TensorType)
        and given.dtype is wanted.dtype
        and len(given.shape) == wanted.rank
        and all(dims_equal(a, b) is not False for a, b in zip(given.shape, wanted.shape))
    )


def at(failure: RelayError, span: Span | None) -> RelayError:
    """Return the same error at a place, where its diagnostics have none."""
    return RelayError(replace(d, span=d.span or span) for d in failure.diagnostics)


def _shown(value: object) -> str:
    return f"`{value!r:.40}`" if isinstance(value, str) else f"a `{type(value).__name__}`"
