"""Least squares by gradient descent: the loop ends when steps are small, or after many."""

import relayvm as tvm
from relayvm import relay


def program() -> tvm.IRModule:
    """Return the program: `main(x, y)` fits weights so that `x` times them is near `y`."""
    x, y = relay.var("x", shape=(12, 4)), relay.var("y", shape=(12, 1))
    rate = relay.const(0.02)

    def step(w):
        error = relay.nn.dense(x, relay.transpose(w)) - y
        return rate * relay.nn.dense(relay.transpose(x), relay.transpose(error))

    def goes_on(i, w, size):
        return relay.logical_and(i < relay.const(500), size > relay.const(1e-6))

    def turn(i, w, size):
        change = step(w)
        return [i + relay.const(1), w - change, relay.max(relay.abs(change))]

    variables = [
        relay.var("i", "int32"),
        relay.var("w", shape=(4, 1)),
        relay.var("size", "float32"),
    ]
    loop = relay.loops.while_loop(goes_on, variables, turn)
    first = [relay.const(0), relay.zeros((4, 1), "float32"), relay.const(1.0)]
    weights = relay.TupleGetItem(relay.Call(loop, first), 1)
    return tvm.IRModule.from_expr(relay.Function([x, y], weights))


if __name__ == "__main__":
    import numpy as np

    rng = np.random.default_rng(0)
    data = rng.standard_normal((12, 4)).astype("float32")
    target = data @ np.array([[1], [2], [3], [4]], "float32")
    print(relay.create_executor("vm", mod=program()).evaluate()(data, target))
