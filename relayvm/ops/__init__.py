"""The operator table `OPS`: every row, by name. Custom operators are rows passed to `parse` and `compile`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from relayvm.ops import (
    broadcasting,
    creation,
    elementwise,
    indexing,
    linalg,
    movement,
    normalization,
    reduction,
    reshaping,
    slicing,
)
from relayvm.ops.operator import Fusion, GradientCall, Operator, operator, table_of

OPS: Mapping[str, Operator] = MappingProxyType(
    table_of(
        broadcasting.OPERATORS,
        creation.OPERATORS,
        elementwise.OPERATORS,
        indexing.OPERATORS,
        linalg.OPERATORS,
        movement.OPERATORS,
        normalization.OPERATORS,
        reduction.OPERATORS,
        reshaping.OPERATORS,
        slicing.OPERATORS,
    )
)

__all__ = ["OPS", "Fusion", "GradientCall", "Operator", "operator"]
