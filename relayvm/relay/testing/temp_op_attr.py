"""Attributes of operators that hold inside of a `with` block."""

from __future__ import annotations

from typing import Any

from relayvm.relay.op.op import ATTRIBUTES, get_attr, reset_attr, set_attr


class TempOpAttr:
    """Set an attribute of an operator for a `with` block, and what it was behind it."""

    def __init__(self, op_name: str, attr_key: str, attr_value: Any) -> None:
        self.op_name = op_name
        self.attr_key = attr_key
        self.attr_value = attr_value

    def __enter__(self) -> TempOpAttr:
        self.was_set = self.attr_key in ATTRIBUTES.get(self.op_name, {})
        self.older = get_attr(self.op_name, self.attr_key)
        set_attr(self.op_name, self.attr_key, self.attr_value)
        return self

    def __exit__(self, ptype: Any, value: Any, trace: Any) -> None:
        reset_attr(self.op_name, self.attr_key)
        if self.was_set:
            set_attr(self.op_name, self.attr_key, self.older)
