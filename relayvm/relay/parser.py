"""Relay text to modules and expressions, by TVM's names."""

from __future__ import annotations

from typing import Any

from relayvm.base.diagnostics import error
from relayvm.base.source import Source
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.program_text import parse_every_error
from relayvm.ir import parser as ir
from relayvm.ir.expr import Expr
from relayvm.ir.module import Module
from relayvm.ir.prelude import prelude
from relayvm.ops import OPS
from relayvm.relay.module import IRModule, present, unwrap, wrap


def parse(
    source: str,
    source_name: str = "from_string",
    init_module: IRModule | None = None,
    init_meta_table: Any = None,
) -> IRModule:
    """Return the module that a text describes, with types.

    The text may use what `init_module` defines; the result holds both. Constants stand in the text
    itself, so that `init_meta_table` must be empty. Raises RelayError with every error.
    """
    if init_meta_table:
        raise error("bad-metadata", "constants stand in the text itself, not in a table beside it")
    text = Source(source_name, source)
    if init_module is None:
        return wrap(infer_types(parse_every_error(text, OPS)))
    known = unwrap(init_module)
    merged = ir.parse_module(text, OPS, _with_library(known))
    own = frozenset(known.functions) | frozenset(known.types)
    module = Module(
        {**known.functions, **merged.functions},
        {**known.types, **merged.types},
        (merged.library - own) | known.library,
        known.attrs,
    )
    return wrap(infer_types(module), init_module)


def _with_library(known: Module) -> Module:
    library = prelude(OPS)
    return Module({**library.functions, **known.functions}, {**library.types, **known.types})


def parse_expr(source: str) -> Expr:
    """Return the expression that a text describes, without types."""
    expr = ir.parse_expr(Source("from_string", source), OPS)
    present(expr)
    return expr


def fromtext(source: str, source_name: str = "from_string") -> IRModule:
    """Return the module that a text describes, with types."""
    return parse(source, source_name)
