"""A small network with the structure of real ones, for fast tests."""

from __future__ import annotations

from relayvm.ir.expr import Expr, Function
from relayvm.relay.expr import var
from relayvm.relay.module import IRModule
from relayvm.relay.ndarray import NDArray
from relayvm.relay.op import add, nn, reshape, reshape_like
from relayvm.relay.testing import layers
from relayvm.relay.testing.init import Constant, create_workload

Shape = tuple[int, ...]


def get_net(
    input_shape: Shape = (1, 3, 24, 12), dtype: str = "float32", wtype: str | None = None
) -> Function:
    """Return the network; `wtype` is the dtype of its weights."""
    weight_dtype = wtype or dtype
    data = var("data", shape=input_shape, dtype=dtype)
    added = _branches(data, data, "", input_shape, weight_dtype)
    biased = nn.bias_add(added, var("bias", dtype=weight_dtype))
    normal = layers.batch_norm_infer(biased, name="batch_norm")
    return layers.network(_branches(normal, data, "2", input_shape, weight_dtype))


def _branches(x: Expr, like: Expr, number: str, shape: Shape, dtype: str) -> Expr:
    """Return the sum of a dense layer and a convolution, both as large as the input."""
    _, channels, _, width = shape
    weight = var(f"dense{number}_weight", shape=(width, width), dtype=dtype)
    dense = nn.relu(nn.dense(reshape(x, (-1, width)), weight))
    kernel = var(f"conv{number}_weight", shape=(channels, channels, 3, 3), dtype=dtype)
    conv = nn.softmax(nn.conv2d(x, kernel, padding=1, kernel_size=3))
    return add(reshape_like(dense, like), conv)


def get_workload(
    input_shape: Shape = (1, 3, 24, 12), dtype: str = "float32", wtype: str | None = None
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return the network as a module, and parameters: the elements of a weight are all the same."""
    return create_workload(get_net(input_shape, dtype, wtype), initializer=Constant())
