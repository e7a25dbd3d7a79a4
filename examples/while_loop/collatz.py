"""How many steps the Collatz sequence takes to reach 1, and the greatest number on the way."""

import relayvm as tvm
from relayvm import relay


def program() -> tvm.IRModule:
    """Return the program: `main(n)`."""
    start = relay.var("start", "int64")
    one, two, three = (relay.const(k, "int64") for k in (1, 2, 3))

    def next_values(n, steps, most):
        half = relay.floor_divide(n, two)
        odd = relay.equal(relay.floor_mod(n, two), one)
        following = relay.If(odd, three * n + one, half)
        return [following, steps + relay.const(1), relay.maximum(most, following)]

    variables = [relay.var("n", "int64"), relay.var("steps", "int32"), relay.var("most", "int64")]
    loop = relay.loops.while_loop(lambda n, steps, most: n > one, variables, next_values)
    result = relay.var("result")
    called = relay.Call(loop, [start, relay.const(0), start])
    pair = relay.Tuple([relay.TupleGetItem(result, 1), relay.TupleGetItem(result, 2)])
    return tvm.IRModule.from_expr(relay.Function([start], relay.Let(result, called, pair)))


if __name__ == "__main__":
    print(relay.create_executor("vm", mod=program()).evaluate()(27))
