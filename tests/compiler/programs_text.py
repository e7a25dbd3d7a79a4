"""Shared by the tests of the compiler: from text to typed modules and results."""

from __future__ import annotations

from relayvm.base.source import Source
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_types
from relayvm.ir.module import Module
from relayvm.ir.prelude import parse_program
from relayvm.ops import OPS


def parsed(text: str) -> Module:
    return parse_program(Source("test.relay", text), OPS)


def typed(text: str) -> Module:
    return infer_types(parsed(text))


def evaluated(text: str, *args: object, name: str = "main") -> object:
    """Return the result of a typed program, which its untyped form must give, too."""
    plain = Evaluator(parsed(text)).call(name, args)
    result = Evaluator(typed(text)).call(name, args)
    assert repr(plain) == repr(result)
    return result
