"""Executors and what `relay.build` makes, by TVM's names."""

from __future__ import annotations

from relayvm.relay.lazy import lazy_names

_BACKEND = "relayvm.relay.backend"

__getattr__ = lazy_names(
    __name__,
    {
        "Executor": f"{_BACKEND}.config",
        "Runtime": f"{_BACKEND}.config",
    },
)
