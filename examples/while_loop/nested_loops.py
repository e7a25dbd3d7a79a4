"""A loop in a loop: the number of primes below n, each number divided by those below it."""

import relayvm as tvm
from relayvm import relay


def program() -> tvm.IRModule:
    """Return the program: `main(n)`."""
    n = relay.var("n", "int32")
    one, two = relay.const(1), relay.const(2)

    def is_prime(k):
        """Return whether the first divisor above 1 is the number itself."""
        loop = relay.loops.while_loop(
            lambda d: relay.not_equal(relay.floor_mod(k, d), relay.const(0)),
            [relay.var("d", "int32")],
            lambda d: [d + one],
        )
        return relay.equal(relay.TupleGetItem(relay.Call(loop, [two]), 0), k)

    outer = relay.loops.while_loop(
        lambda k, count: k < n,
        [relay.var("k", "int32"), relay.var("count", "int32")],
        lambda k, count: [k + one, count + relay.cast(is_prime(k), "int32")],
    )
    result = relay.TupleGetItem(relay.Call(outer, [two, relay.const(0)]), 1)
    return tvm.IRModule.from_expr(relay.Function([n], result))


if __name__ == "__main__":
    print(relay.create_executor("vm", mod=program()).evaluate()(50))
