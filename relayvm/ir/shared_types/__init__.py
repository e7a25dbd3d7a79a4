"""Types that share their parts, taken as what they are in memory."""

from relayvm.ir.shared_types.abbreviations import Abbreviations
from relayvm.ir.shared_types.table import (
    NOT_BOUND,
    Bound,
    Key,
    TypeTable,
    attr_keys,
    attr_value_keys,
    constant_keys,
)

__all__ = [
    "NOT_BOUND",
    "Abbreviations",
    "Bound",
    "Key",
    "TypeTable",
    "attr_keys",
    "attr_value_keys",
    "constant_keys",
]
