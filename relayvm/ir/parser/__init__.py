"""Relay text to modules and expressions."""

from relayvm.ir.parser.module_parser import parse_expr, parse_module, parse_type

__all__ = ["parse_expr", "parse_module", "parse_type"]
