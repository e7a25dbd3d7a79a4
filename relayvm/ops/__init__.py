"""The operator table `OPS`: every row, by name. Custom operators are rows passed to `parse` and `compile`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from relayvm.ops import elementwise, indexing, linalg, movement, reduction
from relayvm.ops.operator import Fusion, GradientCall, Operator, operator, table_of

OPS: Mapping[str, Operator] = MappingProxyType(
    table_of(
        elementwise.OPERATORS,
        indexing.OPERATORS,
        linalg.OPERATORS,
        movement.OPERATORS,
        reduction.OPERATORS,
    )
)

__all__ = ["OPS", "Fusion", "GradientCall", "Operator", "operator"]
