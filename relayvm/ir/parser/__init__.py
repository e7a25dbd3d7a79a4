"""Relay text to modules and expressions."""

from relayvm.ir.parser.module_parser import parse_expr, parse_module, parse_type, recover_module

__all__ = ["parse_expr", "parse_module", "parse_type", "recover_module"]
