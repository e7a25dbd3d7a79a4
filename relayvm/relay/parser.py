"""Relay text to modules and expressions, by TVM's names."""

from __future__ import annotations

from typing import Any

import numpy as np

from relayvm.base.diagnostics import error
from relayvm.base.source import Source
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.program_text import parse_every_error
from relayvm.ir import parser as ir
from relayvm.ir.expr import Expr
from relayvm.ir.metadata import Section
from relayvm.ir.module import Module
from relayvm.ir.prelude import prelude
from relayvm.relay.lazy import absent
from relayvm.relay.module import IRModule, present, unwrap, wrap
from relayvm.relay.node import as_mapping
from relayvm.relay.op_registry import all_operators


def parse(
    source: str,
    source_name: str = "from_string",
    init_module: IRModule | None = None,
    init_meta_table: Any = None,
) -> IRModule:
    """Return the module that a text describes, with types.

    The text may call operators that `relay.op.register` made and use what `init_module` defines;
    the result holds that too. `init_meta_table` holds
    constants that the text names: `{"relay.Constant": [...]}`. Raises RelayError with every error.
    """
    text = Source(source_name, _with_constants(source, init_meta_table))
    operators = all_operators()
    if init_module is None:
        return wrap(infer_types(parse_every_error(text, operators)))
    known = unwrap(init_module)
    merged = ir.parse_module(text, operators, _with_library(known))
    own = frozenset(known.functions) | frozenset(known.types)
    module = Module(
        {**known.functions, **merged.functions},
        {**known.types, **merged.types},
        (merged.library - own) | known.library,
        known.attrs,
    )
    return wrap(infer_types(module), init_module)


def _with_constants(source: str, table: Any) -> str:
    """Return a text with the section of the constants of a table."""
    given = as_mapping(table, "`init_meta_table`")
    if not given:
        return source
    if set(given) != {"relay.Constant"} or "#[metadata]" in source:
        message = "a table holds a list `relay.Constant`, for a text without a section of metadata"
        raise error("bad-metadata", message)
    section = Section()
    for constant in given["relay.Constant"]:
        section.number(np.array(getattr(constant, "data", constant)))
    return "".join([source, "\n", *section.parts()])


def _with_library(known: Module) -> Module:
    library = prelude(all_operators())
    return Module({**library.functions, **known.functions}, {**library.types, **known.types})


def parse_expr(source: str) -> Expr:
    """Return the expression that a text describes, without types."""
    expr = ir.parse_expr(Source("from_string", source), all_operators())
    present(expr)
    return expr


def fromtext(source: str, source_name: str = "from_string") -> IRModule:
    """Return the module that a text describes, with types."""
    return parse(source, source_name)


__getattr__ = absent("relayvm.relay.parser")
