"""Instructions that the machine fuses when it loads a program; files hold none of them."""

from relayvm.vm.fused.rows import FUSED, Fused, Part

__all__ = ["FUSED", "Fused", "Part"]
