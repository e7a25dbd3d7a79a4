"""`tvm._ffi`: where old programs find the class of errors."""

from __future__ import annotations

from relayvm.relay.lazy import lazy_names

# A package to Python, whose modules are found by name.
__path__: list[str] = []

__getattr__ = lazy_names(
    "relayvm._ffi", {"base": "relayvm.relay.namespace.error:"}, top="relayvm._ffi"
)
