"""Types that share their parts, taken as what they are in memory."""

from relayvm.ir.shared_types.abbreviations import Abbreviations
from relayvm.ir.shared_types.table import (
    Key,
    TypeTable,
    attr_keys,
    attr_value_keys,
    constant_keys,
)

__all__ = [
    "Abbreviations",
    "Key",
    "TypeTable",
    "attr_keys",
    "attr_value_keys",
    "constant_keys",
]
