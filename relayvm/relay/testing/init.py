"""Values for the parameters of test networks."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from relayvm.base.diagnostics import error, quantity
from relayvm.compiler.passes import run_passes
from relayvm.ir.expr import Function
from relayvm.ir.types import TensorType
from relayvm.relay.module import IRModule, wrap
from relayvm.relay.ndarray import NDArray, as_ndarray


class Initializer:
    """Fills arrays by what the end of a parameter's name says it is."""

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = kwargs
        self.generator = np.random.RandomState(0)

    def __call__(self, desc: str, arr: np.ndarray) -> None:
        """Fill an array; raises RelayError `bad-option` for a name that says nothing."""
        for kind in ("weight", "bias", "gamma", "beta", "mean", "var"):
            if desc.endswith(kind):
                getattr(self, f"_init_{kind}")(desc, arr)
                return
        self._init_default(desc, arr)

    def _init_weight(self, name: str, arr: np.ndarray) -> None:
        message = f"weight `{name}` is initialised by no rule: `Xavier` and `Constant` have one"
        raise error("bad-option", message)

    def _init_bias(self, name: str, arr: np.ndarray) -> None:
        arr[...] = 0

    def _init_gamma(self, name: str, arr: np.ndarray) -> None:
        arr[...] = 1

    def _init_beta(self, name: str, arr: np.ndarray) -> None:
        arr[...] = 0

    def _init_mean(self, name: str, arr: np.ndarray) -> None:
        arr[...] = 0

    def _init_var(self, name: str, arr: np.ndarray) -> None:
        arr[...] = 1

    def _init_default(self, name: str, arr: np.ndarray) -> None:
        ends = "`weight`, `bias`, `gamma`, `beta`, `mean` or `var`"
        raise error("bad-option", f"parameter `{name}` is initialised by no rule: end it in {ends}")


class Xavier(Initializer):
    """Random weights whose spread follows from how many elements they connect.

    Source: Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural
    networks". Weights named `depthwise` connect a channel to itself only.
    """

    def __init__(
        self, rnd_type: str = "uniform", factor_type: str = "avg", magnitude: float = 3
    ) -> None:
        super().__init__(rnd_type=rnd_type, factor_type=factor_type, magnitude=magnitude)
        if rnd_type not in ("uniform", "gaussian"):
            raise error("bad-option", f"`rnd_type` is `uniform` or `gaussian`, not `{rnd_type}`")
        if factor_type not in ("avg", "in", "out"):
            raise error("bad-option", f"`factor_type` is avg, in or out, not `{factor_type}`")
        self.rnd_type = rnd_type
        self.factor_type = factor_type
        self.magnitude = float(magnitude)

    def _init_weight(self, name: str, arr: np.ndarray) -> None:
        if arr.ndim < 2:
            axes = quantity(arr.ndim, "axis", "axes")
            raise error("bad-option", f"weight `{name}` has {axes}, not two or more")
        window = math.prod(arr.shape[2:])
        fan_in, fan_out = arr.shape[1] * window, arr.shape[0] * window
        factor = {"avg": (fan_in + fan_out) / 2, "in": fan_in, "out": fan_out}[self.factor_type]
        if "depthwise" in name:
            factor = window
        scale = math.sqrt(self.magnitude / factor)
        if self.rnd_type == "uniform":
            arr[...] = self.generator.uniform(-scale, scale, arr.shape)
        else:
            arr[...] = self.generator.normal(0, scale, arr.shape)


class Constant(Initializer):
    """Weights that are all the same and whose sum is 1."""

    def _init_weight(self, name: str, arr: np.ndarray) -> None:
        arr[...] = 1 / max(1, arr.size)


# What a network takes from outside: one input, or several that are numbered.
_INPUT = re.compile(r"data(_\d+)?")


def create_workload(
    net: Function, initializer: Initializer | None = None, seed: int = 0
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return a network as a typed module, and values for its parameters but `data`, `data_1`,
    `data_2` and so on.

    Parameters with sizes that are not known are left out. The same `seed` gives the same values.
    """
    typed = run_passes(IRModule.from_expr(net).module, ["infer_types"])
    fill = initializer or Xavier()
    fill.generator = np.random.RandomState(seed)
    params: dict[str, NDArray] = {}
    for param in typed["main"].params:
        kind = param.checked_type or param.type_annotation
        if _INPUT.fullmatch(param.name) or not isinstance(kind, TensorType):
            continue
        shape = tuple(dim for dim in kind.shape if isinstance(dim, int))
        if len(shape) == kind.rank:
            value = np.zeros(shape, kind.dtype.numpy)
            fill(param.name, value)
            params[param.name] = as_ndarray(value)
    return wrap(typed), params
