"""A tensor that gets one more row each turn: the size of the loop variable is not known."""

import relayvm as tvm
from relayvm import relay


def program() -> tvm.IRModule:
    """Return the program: `main(row, times)`."""
    row = relay.var("row", shape=(1, 3))
    times = relay.var("times", "int32")
    rows = relay.var("rows", relay.TensorType((relay.Any(), 3), "float32"))
    loop = relay.loops.while_loop(
        lambda i, rows: i < times,
        [relay.var("i", "int32"), rows],
        lambda i, rows: [
            i + relay.const(1),
            relay.concatenate([rows, row * relay.cast(i, "float32")], axis=0),
        ],
    )
    result = relay.TupleGetItem(relay.Call(loop, [relay.const(0), row]), 1)
    return tvm.IRModule.from_expr(relay.Function([row, times], result))


if __name__ == "__main__":
    import numpy as np

    print(relay.create_executor("vm", mod=program()).evaluate()(np.ones((1, 3), "float32"), 3))
