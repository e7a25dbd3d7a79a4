"""A multilayer perceptron of three layers."""

from __future__ import annotations

from relayvm.ir.expr import Expr, Function
from relayvm.relay.expr import var
from relayvm.relay.module import IRModule
from relayvm.relay.ndarray import NDArray
from relayvm.relay.op import nn
from relayvm.relay.testing import layers
from relayvm.relay.testing.init import create_workload

Shape = tuple[int, ...]


def get_net(
    batch_size: int,
    num_classes: int = 10,
    image_shape: Shape = (1, 28, 28),
    dtype: str = "float32",
) -> Function:
    """Return the network."""
    x: Expr = nn.batch_flatten(var("data", shape=(batch_size, *image_shape), dtype=dtype))
    for name, units in (("fc1", 128), ("fc2", 64)):
        x = nn.relu(_layer(x, name, units))
    return layers.network(nn.softmax(_layer(x, "fc3", num_classes)))


def _layer(x: Expr, name: str, units: int) -> Expr:
    return nn.bias_add(nn.dense(x, var(f"{name}_weight"), units=units), var(f"{name}_bias"))


def get_workload(
    batch_size: int,
    num_classes: int = 10,
    image_shape: Shape = (1, 28, 28),
    dtype: str = "float32",
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return the network as a module, and parameters."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype))
