"""What tests of programs need: passes over one expression, random values, gradients checked by
differences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from relayvm.base.diagnostics import error
from relayvm.ir.expr import Call, Expr, Function, Op
from relayvm.ir.printer import print_type
from relayvm.ir.types import TensorType
from relayvm.ir.visit import post_order
from relayvm.relay import transform
from relayvm.relay.build_module import create_executor
from relayvm.relay.module import IRModule
from relayvm.relay.namespace.transform import Pass
from relayvm.relay.ndarray import Device, NDArray, as_ndarray, cpu
from relayvm.relay.node import as_dtype


def run_opt_pass(expr: Expr, opt_pass: Pass, import_prelude: bool = False) -> Expr:
    """Return an expression after a pass over the module that it makes."""
    if not isinstance(opt_pass, Pass):
        message = f"`run_opt_pass` takes a pass, not a `{type(opt_pass).__name__}`"
        raise error("bad-option", message)
    module = IRModule.from_expr(expr)
    if import_prelude:
        module.take_from_std("prelude.rly")
    entry: Function = opt_pass(transform.InferType()(module))["main"]
    return entry if isinstance(expr, Function) else entry.body


def run_infer_type(expr: Expr) -> Expr:
    """Return an expression with types."""
    return run_opt_pass(expr, transform.InferType())


def rand(dtype: str, *shape: int) -> NDArray:
    """Return random numbers from 0 to below 1."""
    return as_ndarray(as_dtype(dtype).array(np.random.default_rng().random(shape)))


def _np_randn_from_type(t: TensorType, scale: float = 1, mean: float = 0) -> np.ndarray:
    """Return normally distributed numbers of a tensor type."""
    shape = tuple(dim for dim in t.shape if isinstance(dim, int))
    if len(shape) != t.rank:
        raise error("bad-option", f"`{print_type(t)}` has sizes that are not known: no values")
    values = np.random.default_rng().standard_normal(shape)
    return t.dtype.array(mean + scale * values)


def count_ops(expr: Expr) -> Counter[str]:
    """Return how often each operator is called, by name."""
    calls = (node.op for node in post_order(expr) if isinstance(node, Call))
    return Counter(op.name for op in calls if isinstance(op, Op))


def enabled_targets() -> list[tuple[str, Device]]:
    """Return the targets that tests run on, with their devices."""
    return [("llvm", cpu())]


def check_grad(
    func: Function,
    inputs: Sequence[np.ndarray] | None = None,
    test_inputs: Sequence[np.ndarray] | None = None,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    scale: float | None = None,
    mean: float = 0,
    mode: str = "higher_order",
    target_devices: Sequence[Any] | None = None,
    executor_kind: str = "debug",
) -> None:
    """Compare the gradient of a function with differences on both sides of its inputs.

    `test_inputs` are those whose gradients are compared, by default all. Raises AssertionError;
    RelayError `bad-option` where nothing would be compared.
    """
    forward = run_infer_type(func)
    assert isinstance(forward, Function)
    backward = run_infer_type(transform.gradient(forward, mode=mode))
    if inputs is None:
        spread = 10 * eps if scale is None else scale
        types = [p.checked_type or p.type_annotation for p in forward.params]
        inputs = [_np_randn_from_type(t, spread, mean) for t in types if isinstance(t, TensorType)]
    compared = inputs if test_inputs is None else test_inputs
    if not compared:
        raise error("bad-option", "at least one gradient is compared: `test_inputs` is empty")
    for target, device in enabled_targets() if target_devices is None else target_devices:
        executor = create_executor(executor_kind, device=device, target=target)
        run = executor.evaluate(forward)
        found = list(executor.evaluate(backward)(*inputs)[1])
        for x in compared:
            place = next(i for i, given in enumerate(inputs) if given is x)
            wanted = _differences(run, inputs, x, eps)
            given = np.asarray(found[place], np.float64)
            np.testing.assert_allclose(given, wanted, atol=atol, rtol=rtol)


def _differences(run: Any, inputs: Sequence[np.ndarray], x: np.ndarray, eps: float) -> np.ndarray:
    """Return how the sum of the results changes with each element of `x`."""
    slopes = np.zeros(x.shape)
    for i in np.ndindex(*x.shape):
        kept = x[i]
        sums = []
        for step in (eps, -eps):
            x[i] = kept + step
            sums.append(np.asarray(run(*inputs), np.float64).copy())
        x[i] = kept
        slopes[i] = np.sum((sums[0] - sums[1]) / (2 * eps))
    return slopes
