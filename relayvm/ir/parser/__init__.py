"""Relay text to modules and expressions."""

from relayvm.ir.parser.module_parser import (
    Recovered,
    parse_expr,
    parse_module,
    parse_type,
    recover_module,
)

__all__ = ["Recovered", "parse_expr", "parse_module", "parse_type", "recover_module"]
