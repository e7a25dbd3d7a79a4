"""Reverse-mode differentiation of the whole language, and of straight-line code."""

from relayvm.compiler.autodiff.first_order import first_order_gradient
from relayvm.compiler.autodiff.reverse import gradient

__all__ = ["first_order_gradient", "gradient"]
