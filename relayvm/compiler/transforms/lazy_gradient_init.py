"""Gradients that are all zeros or all ones are not computed with."""

from __future__ import annotations

from functools import lru_cache

from relayvm.compiler.rewriting import rewrite_calls
from relayvm.compiler.rewriting.text import TextRule, load_rules
from relayvm.ir.module import Module


def lazy_gradient_init(module: Module) -> Module:
    """Drop sums with zeros and products with ones.

    `add(%g, multiply(%x, zeros_like(%x)))` -> `%g`. A product with zeros is zeros even where the
    other factor is not finite, and the sign of a zero may change. It works on the code that
    differentiation and partial evaluation leave; there are no cells of gradients at run time.
    """
    return rewrite_calls(module, [rule.as_call_rule() for rule in gradient_rules()])


@lru_cache(maxsize=1)
def gradient_rules() -> tuple[TextRule, ...]:
    """Return the rules."""
    return load_rules("lazy_gradient.rly")
