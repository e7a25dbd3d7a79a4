"""A recurrent network of long short-term memory cells, unrolled."""

from __future__ import annotations

from relayvm.base.dtypes import dtype_of
from relayvm.ir.build import let
from relayvm.ir.expr import Call, Expr, Function, Tuple, TupleGetItem, Var
from relayvm.ir.types import TensorType, TupleType, Type
from relayvm.ir.visit import free_vars
from relayvm.relay.module import IRModule
from relayvm.relay.ndarray import NDArray
from relayvm.relay.op import add, multiply, sigmoid, split, tanh, zeros
from relayvm.relay.testing import layers
from relayvm.relay.testing.init import create_workload

GATES = 4


class _Lets:
    """Lets in the order in which they are made."""

    def __init__(self) -> None:
        self.rows: list[tuple[Var, Expr]] = []

    def bind(self, name: str, kind: Type, value: Expr) -> Var:
        variable = Var(name, kind)
        self.rows.append((variable, value))
        return variable


def lstm_cell(
    num_hidden: int, batch_size: int = 1, dtype: str = "float32", name: str = ""
) -> Function:
    """Return a cell: from an input, a pair of states and weights to an output and new states."""
    state = TensorType((batch_size, num_hidden), dtype_of(dtype))
    gates_type = TensorType((batch_size, GATES * num_hidden), dtype_of(dtype))
    weight_type = TensorType((GATES * num_hidden, num_hidden), dtype_of(dtype))
    bias_type = TensorType((GATES * num_hidden,), dtype_of(dtype))
    inputs, states = Var("inputs", state), Var("states", TupleType((state, state)))
    weights = [
        Var(f"{part}_{kind}", type_)
        for part in ("i2h", "h2h")
        for kind, type_ in (("weight", weight_type), ("bias", bias_type))
    ]
    lets = _Lets()
    parts = []
    hidden = TupleGetItem(states, 0)
    rows: tuple[tuple[str, Expr, Var, Var], ...] = (
        ("i2h", inputs, weights[0], weights[1]),
        ("h2h", hidden, weights[2], weights[3]),
    )
    for part, x, weight, bias in rows:
        dense = layers.dense_add_bias(
            x, units=num_hidden * GATES, weight=weight, bias=bias, name=f"{name}{part}"
        )
        parts.append(lets.bind(part, gates_type, dense))
    gates = lets.bind("gates", gates_type, add(*parts))
    sliced = lets.bind(
        "slice_gates", TupleType((state,) * GATES), split(gates, GATES, axis=1).astuple()
    )
    in_gate = lets.bind("in_gate", state, sigmoid(TupleGetItem(sliced, 0)))
    forget_gate = lets.bind("forget_gate", state, sigmoid(TupleGetItem(sliced, 1)))
    in_transform = lets.bind("in_transform", state, tanh(TupleGetItem(sliced, 2)))
    out_gate = lets.bind("out_gate", state, sigmoid(TupleGetItem(sliced, 3)))
    kept = multiply(forget_gate, TupleGetItem(states, 1))
    next_c = lets.bind("next_c", state, add(kept, multiply(in_gate, in_transform)))
    next_h = lets.bind("next_h", state, multiply(out_gate, tanh(next_c)))
    result_type = TupleType((state, TupleType((state, state))))
    result = lets.bind("ret", result_type, Tuple((next_h, Tuple((next_h, next_c)))))
    return Function((inputs, states, *weights), let(lets.rows, result), result_type)


def get_net(
    iterations: int, num_hidden: int, batch_size: int = 1, dtype: str = "float32"
) -> Function:
    """Return the network of so many cells, each with weights and an input of its own: `data`,
    `data_1`, ...
    """
    state = TensorType((batch_size, num_hidden), dtype_of(dtype))
    weight_type = TensorType((GATES * num_hidden, num_hidden), dtype_of(dtype))
    bias_type = TensorType((GATES * num_hidden,), dtype_of(dtype))
    states_type = TupleType((state, state))
    lets = _Lets()
    start = lets.bind("zeros", state, zeros((batch_size, num_hidden), dtype))
    states: Expr = lets.bind("init_states", states_type, Tuple((start, start)))
    out: Expr = start
    for i in range(iterations):
        args = (
            Var("data" if i == 0 else f"data_{i}", state),
            states,
            Var(f"i2h_{i}_weight", weight_type),
            Var(f"i2h_{i}_bias", bias_type),
            Var(f"h2h_{i}_weight", weight_type),
            Var(f"h2h_{i}_bias", bias_type),
        )
        cell = lstm_cell(num_hidden, batch_size, dtype, f"lstm_{i}")
        result = lets.bind(f"call_{i}", TupleType((state, states_type)), Call(cell, args))
        out = lets.bind(f"out_{i}", state, TupleGetItem(result, 0))
        states = lets.bind(f"states_{i}", states_type, TupleGetItem(result, 1))
    body = let(lets.rows, out)
    return Function(free_vars(body), body, state)


def get_workload(
    iterations: int, num_hidden: int, batch_size: int = 1, dtype: str = "float32"
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return the network as a module, and parameters; its inputs are `data`, `data_1`, ...."""
    return create_workload(get_net(iterations, num_hidden, batch_size, dtype))
