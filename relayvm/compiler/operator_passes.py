"""Rows of the passes that rewrite operator calls; they run only by name."""

from __future__ import annotations

from collections.abc import Callable

from relayvm.compiler.pipeline import Pass, Property
from relayvm.compiler.steps import OptionValue
from relayvm.compiler.transforms.canonicalize import canonicalize_cast, canonicalize_ops
from relayvm.compiler.transforms.combine_parallel import (
    combine_parallel_batch_matmul,
    combine_parallel_conv2d,
    combine_parallel_dense,
)
from relayvm.compiler.transforms.fake_quantization_to_integer import fake_quantization_to_integer
from relayvm.compiler.transforms.fast_math import div_to_mul, fast_math
from relayvm.compiler.transforms.fold_padding import flatten_atrous_conv, fold_explicit_padding
from relayvm.compiler.transforms.fold_scale_axis import (
    backward_fold_scale_axis,
    fold_scale_axis,
    forward_fold_scale_axis,
)
from relayvm.compiler.transforms.lazy_gradient_init import lazy_gradient_init
from relayvm.compiler.transforms.plan_devices import plan_devices
from relayvm.compiler.transforms.simplify_expr import simplify_expr
from relayvm.compiler.transforms.to_mixed_precision import to_mixed_precision
from relayvm.ir.module import Module

_TYPED = frozenset({Property.TYPED})
_SHAPE_OF_TERMS = frozenset({Property.ANF, Property.FUSED})


def _row(
    run: Callable[..., Module],
    doc: str,
    rounds: bool = False,
    keeps_types: bool = True,
    judging: bool = False,
    **options: OptionValue,
) -> Pass:
    """Return the row of a pass that runs only by name."""
    return Pass(
        run.__name__,
        run,
        doc,
        requires=_TYPED,
        breaks=_SHAPE_OF_TERMS if keeps_types else _SHAPE_OF_TERMS | _TYPED,
        options=tuple(options.items()),
        in_pipeline=False,
        rounds=rounds,
        judging=judging,
    )


OPERATOR_PASSES = (
    _row(simplify_expr, "replace expressions by simpler ones", rounds=True, exact=False),
    _row(canonicalize_ops, "write biases as sums"),
    _row(canonicalize_cast, "give each user of a widening cast one of its own"),
    _row(div_to_mul, "multiply by reciprocals of constants", rounds=True),
    _row(fast_math, "approximate exponential functions", rounds=True),
    _row(fold_explicit_padding, "let convolutions and poolings pad by themselves"),
    _row(flatten_atrous_conv, "write convolutions of interleaved blocks as dilated ones"),
    _row(
        combine_parallel_conv2d,
        "compute convolutions of one tensor as one",
        rounds=True,
        min_num_branches=3,
    ),
    _row(
        combine_parallel_dense,
        "compute dense layers of one tensor as one",
        rounds=True,
        min_num_branches=3,
        to_batch_matmul=True,
    ),
    _row(
        combine_parallel_batch_matmul,
        "compute products of one batch of matrices as one",
        rounds=True,
        min_num_branches=3,
    ),
    _row(backward_fold_scale_axis, "multiply factors into the weights before them", rounds=True),
    _row(forward_fold_scale_axis, "multiply factors into the weights behind them", rounds=True),
    _row(
        fold_scale_axis,
        "multiply factors into weights, and evaluate these",
        rounds=True,
        keeps_types=False,
    ),
    _row(
        to_mixed_precision,
        "compute in half precision where that is good enough",
        rounds=True,
        keeps_types=False,
        judging=True,
        mixed_precision_type="float16",
        missing_op_mode=2,
        keep_orig_output_dtype=True,
    ),
    _row(
        fake_quantization_to_integer,
        "compute on integers what lies between dequantize and quantize",
        rounds=True,
        judging=True,
        hard_fail=False,
        use_qat=False,
        optional_qnn_ops=(),
    ),
    _row(plan_devices, "drop annotations of the one device", judging=True),
    _row(lazy_gradient_init, "drop sums with zeros and products with ones", rounds=True),
)
