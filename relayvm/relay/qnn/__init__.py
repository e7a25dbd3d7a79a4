"""Quantized networks, by TVM's names: the operators, also under `qnn.op`, and passes."""

from __future__ import annotations

from relayvm.relay.lazy import lazy_names

__getattr__ = lazy_names(__name__, {}, fallbacks=("relayvm.relay.qnn.op",))
