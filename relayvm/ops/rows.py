"""All rows by name, and the Python names under which gradients build calls of them."""

from __future__ import annotations

from relayvm.ops import (
    activation,
    annotation,
    binary,
    broadcasting,
    convolution,
    convolution_gradients,
    correlation,
    creation,
    deformable,
    dynamic,
    dynamic_filling,
    dynamic_parts,
    dynamic_upsampling,
    einstein,
    elementwise,
    gathering,
    gathering_grads,
    indexing,
    integers,
    linalg,
    losses,
    masking,
    movement,
    normalization,
    normalization_layers,
    packed,
    padding,
    pooling,
    quantized,
    quantized_layers,
    random_numbers,
    reduction,
    relayout,
    repeating,
    reshaping,
    scans,
    selecting,
    signal,
    slicing,
    sorting,
    space,
    sparse_matrices,
    sparse_tensors,
    unary,
    upsampling,
)
from relayvm.ops.operator import table_of

ROWS = table_of(
    activation.OPERATORS,
    annotation.OPERATORS,
    binary.OPERATORS,
    broadcasting.OPERATORS,
    convolution.OPERATORS,
    convolution_gradients.OPERATORS,
    correlation.OPERATORS,
    creation.OPERATORS,
    deformable.OPERATORS,
    dynamic.OPERATORS,
    dynamic_filling.OPERATORS,
    dynamic_parts.OPERATORS,
    dynamic_upsampling.OPERATORS,
    einstein.OPERATORS,
    elementwise.OPERATORS,
    gathering.OPERATORS,
    gathering_grads.OPERATORS,
    indexing.OPERATORS,
    integers.OPERATORS,
    linalg.OPERATORS,
    losses.OPERATORS,
    masking.OPERATORS,
    movement.OPERATORS,
    normalization.OPERATORS,
    normalization_layers.OPERATORS,
    packed.OPERATORS,
    padding.OPERATORS,
    pooling.OPERATORS,
    quantized.OPERATORS,
    quantized_layers.OPERATORS,
    random_numbers.OPERATORS,
    reduction.OPERATORS,
    relayout.OPERATORS,
    repeating.OPERATORS,
    reshaping.OPERATORS,
    scans.OPERATORS,
    selecting.OPERATORS,
    signal.OPERATORS,
    slicing.OPERATORS,
    sorting.OPERATORS,
    space.OPERATORS,
    sparse_matrices.OPERATORS,
    sparse_tensors.OPERATORS,
    unary.OPERATORS,
    upsampling.OPERATORS,
)

add, subtract, multiply, divide = (ROWS[n] for n in ("add", "subtract", "multiply", "divide"))
power, negative, floor_divide, trunc = (
    ROWS[n] for n in ("power", "negative", "floor_divide", "trunc")
)
exp, log, sqrt, sin, cos, sinh, cosh = (
    ROWS[n] for n in ("exp", "log", "sqrt", "sin", "cos", "sinh", "cosh")
)
less, less_equal, greater, greater_equal, equal, logical_and = (
    ROWS[n] for n in ("less", "less_equal", "greater", "greater_equal", "equal", "logical_and")
)
sum_, prod, mean = (ROWS[n] for n in ("sum", "prod", "mean"))
