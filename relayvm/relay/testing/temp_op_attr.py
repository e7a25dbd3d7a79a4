"""Attributes of operators that hold inside of a `with` block."""

from __future__ import annotations

from typing import Any

from relayvm.relay.op_registry import get, get_attr, reset_attr, set_attr, was_set


class TempOpAttr:
    """Set an attribute of an operator for a `with` block, and what it was behind it."""

    def __init__(self, op_name: str, attr_key: str, attr_value: Any) -> None:
        self.op = get(op_name)
        self.attr_key = attr_key
        self.attr_value = attr_value

    def __enter__(self) -> TempOpAttr:
        self.was_set = was_set(self.op, self.attr_key)
        self.older = get_attr(self.op, self.attr_key)
        reset_attr(self.op, self.attr_key)
        set_attr(self.op, self.attr_key, self.attr_value)
        return self

    def __exit__(self, ptype: Any, value: Any, trace: Any) -> None:
        reset_attr(self.op, self.attr_key)
        if self.was_set:
            set_attr(self.op, self.attr_key, self.older)
