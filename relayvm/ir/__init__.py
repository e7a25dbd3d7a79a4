"""The language: types, expressions, modules, their text, and structural operations on them."""

from relayvm.ir.equal import structural_equal, structural_hash
from relayvm.ir.module import Module, TypeData
from relayvm.ir.parser import parse_expr, parse_module, parse_type
from relayvm.ir.prelude import parse_program, prelude
from relayvm.ir.printer import print_expr, print_module, print_type
from relayvm.ir.verify import verify_module
from relayvm.ir.visit import free_vars, post_order, rewrite, substitute

__all__ = [
    "Module",
    "TypeData",
    "free_vars",
    "parse_expr",
    "parse_module",
    "parse_program",
    "parse_type",
    "post_order",
    "prelude",
    "print_expr",
    "print_module",
    "print_type",
    "rewrite",
    "structural_equal",
    "structural_hash",
    "substitute",
    "verify_module",
]
