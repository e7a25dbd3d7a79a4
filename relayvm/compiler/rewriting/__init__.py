"""Rewriting operator calls by rules, from the operands up."""

from relayvm.compiler.rewriting.engine import CallRule, Site, rewrite_calls

__all__ = ["CallRule", "Site", "rewrite_calls"]
