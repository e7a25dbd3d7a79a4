"""The operator table `OPS`, by name. Custom operators are rows passed to `parse` and `compile`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# Gradients stand in files of their own, because they build calls of operators of all families.
from relayvm.ops import (
    gradient_activation,  # noqa: F401
    gradient_convolution,  # noqa: F401
    gradient_deformable,  # noqa: F401
    gradient_dynamic,  # noqa: F401
    gradient_elementwise,  # noqa: F401
    gradient_image,  # noqa: F401
    gradient_losses,  # noqa: F401
    gradient_pooling,  # noqa: F401
    gradient_quantized,  # noqa: F401
    gradient_random,  # noqa: F401
    gradient_reduction,  # noqa: F401
    gradient_sampling,  # noqa: F401
    gradient_signal,  # noqa: F401
    gradient_space,  # noqa: F401
    gradient_sparse,  # noqa: F401
    gradient_tensor,  # noqa: F401
    gradient_transform,  # noqa: F401
)
from relayvm.ops.operator import Fusion, GradientCall, Operator, gradient_call, operator
from relayvm.ops.rows import ROWS
from relayvm.ops.tracing import Trace, trace_shape

OPS: Mapping[str, Operator] = MappingProxyType(ROWS)

__all__ = [
    "OPS",
    "Fusion",
    "GradientCall",
    "Operator",
    "Trace",
    "gradient_call",
    "operator",
    "trace_shape",
]
