"""Operators on quantized tensors, by TVM's names."""

from __future__ import annotations

from relayvm.relay.lazy import lazy_names
from relayvm.relay.qnn.op.config import (
    current_requantize_config,
    requantize_config,
)
from relayvm.relay.qnn.op.elementwise import (
    abs,
    add,
    erf,
    exp,
    hardswish,
    log,
    mul,
    rsqrt,
    sigmoid,
    sqrt,
    subtract,
    tanh,
)
from relayvm.relay.qnn.op.qnn import (
    avg_pool2d,
    batch_matmul,
    concatenate,
    contrib_dense_pack,
    conv2d,
    conv2d_transpose,
    dense,
    dequantize,
    leaky_relu,
    quantize,
    requantize,
    simulated_dequantize,
    simulated_quantize,
    softmax,
)

__getattr__ = lazy_names(__name__, {})

__all__ = [
    "abs",
    "add",
    "avg_pool2d",
    "batch_matmul",
    "concatenate",
    "contrib_dense_pack",
    "conv2d",
    "conv2d_transpose",
    "current_requantize_config",
    "dense",
    "dequantize",
    "erf",
    "exp",
    "hardswish",
    "leaky_relu",
    "log",
    "mul",
    "quantize",
    "requantize",
    "requantize_config",
    "rsqrt",
    "sigmoid",
    "simulated_dequantize",
    "simulated_quantize",
    "softmax",
    "sqrt",
    "subtract",
    "tanh",
]
