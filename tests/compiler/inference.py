"""What the tests of type inference share: programs as text, and their types as text."""

from __future__ import annotations

from relayvm.base.source import Source
from relayvm.compiler.infer_types import infer_types
from relayvm.ir.module import Module
from relayvm.ir.prelude import parse_program
from relayvm.ir.printer import print_type
from relayvm.ops import OPS


def typed(text: str) -> Module:
    """Return a program with types; inferring again must change nothing."""
    module = infer_types(parse_program(Source("test.rly", text), OPS))
    assert infer_types(module) is module
    return module


def type_text(text: str, name: str = "main") -> str:
    """Return the type of one function of a program."""
    type_ = typed(text).functions[name].checked_type
    assert type_ is not None
    return print_type(type_)


def result(text: str, name: str = "main") -> str:
    """Return the result type of one function of a program."""
    type_ = typed(text).functions[name].ret_type
    assert type_ is not None
    return print_type(type_)
