"""The sum of the squares below n, by a loop over two numbers."""

import relayvm as tvm
from relayvm import relay


def program() -> tvm.IRModule:
    """Return the program: `main(n)`."""
    n = relay.var("n", "int32")
    i, total = relay.var("i", "int32"), relay.var("total", "int32")
    loop = relay.loops.while_loop(
        lambda i, total: i < n,
        [i, total],
        lambda i, total: [i + relay.const(1), total + i * i],
    )
    result = relay.TupleGetItem(relay.Call(loop, [relay.const(0), relay.const(0)]), 1)
    return tvm.IRModule.from_expr(relay.Function([n], result))


if __name__ == "__main__":
    print(relay.create_executor("vm", mod=program()).evaluate()(10))
