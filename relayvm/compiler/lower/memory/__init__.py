"""Explicit memory: who holds each object, retains and releases, and what is made in place."""

from relayvm.compiler.lower.memory.explicit import make_memory_explicit

__all__ = ["make_memory_explicit"]
