"""The rows of `overhead` that other systems can run, each by the means it has for a loop."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Run = Callable[[int], Any]

FLOATS, KERNEL_FLOATS = 16, 150
# Relax recurs where others loop, and its frames lie on the stack of C.
_RELAX_MOST = 512
_TRIED = 3


@dataclass(frozen=True, slots=True)
class Peer:
    """Another system: what it is called, how it loops, and what makes its rows.

    `rows` maps names of rows to functions that run so many rounds; `most` bounds the rounds.
    `missing` is why there are none.
    """

    name: str
    version: str
    how: str
    rows: dict[str, Run]
    missing: str = ""
    most: int | None = None


def peers() -> list[Peer]:
    """Return all systems that rows can be compared with; those that are not installed say so."""
    return [
        _peer("ONNX Runtime", "onnxruntime", "operator Loop", _onnx),
        _peer("PyTorch", "torch", "eager, a loop in Python", _torch),
        _peer("JAX", "jax", "lax.fori_loop under jit", _jax),
        _peer("IREE", "iree.runtime", "scf.while on its VM", _iree),
        _peer("TVM Relax VM", "tvm", "recursion on its VM", _relax, _RELAX_MOST),
    ]


_DISTRIBUTIONS = {"iree.runtime": "iree-base-runtime", "tvm": "apache-tvm"}


def _peer(
    name: str, module: str, how: str, make: Callable[[], dict[str, Run]], most: int | None = None
) -> Peer:
    try:
        importlib.import_module(module)
        rows = make()
        for run in rows.values():
            run(_TRIED)
    except ImportError as reason:
        return Peer(name, "", how, {}, f"{reason}")
    except Exception as reason:  # another release may have other names for what is used here
        return Peer(name, "", how, {}, f"{type(reason).__name__}: {reason}".splitlines()[0])
    distribution = _DISTRIBUTIONS.get(module, module)
    try:
        version = importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        version = "of unknown version"
    return Peer(name, version, how, rows, most=most)


def _python_rounds(call: Callable[[], Any]) -> Run:
    def run(length: int) -> None:
        for _ in range(length):
            call()

    return run


# --- ONNX Runtime --------------------------------------------------------------------------------


def _onnx() -> dict[str, Run]:
    import onnx
    from onnx import TensorProto, helper

    def loop(kind: int, dims: list[int], start: np.ndarray, body: list[Any], consts: Any) -> Run:
        value = helper.make_tensor_value_info
        inner = helper.make_graph(
            [helper.make_node("Identity", ["go"], ["more"]), *body],
            "body",
            [
                value("i", TensorProto.INT64, []),
                value("go", TensorProto.BOOL, []),
                value("acc", kind, dims),
            ],
            [value("more", TensorProto.BOOL, []), value("made", kind, dims)],
            [onnx.numpy_helper.from_array(array, name) for name, array in consts.items()],
        )
        node = helper.make_node("Loop", ["n", "", "start"], ["end"], body=inner)
        graph = helper.make_graph(
            [node],
            "whole",
            [value("n", TensorProto.INT64, [])],
            [value("end", kind, dims)],
            [onnx.numpy_helper.from_array(start, "start")],
        )
        session = _session(graph)
        return lambda length: session.run(None, {"n": np.array(length, np.int64)})

    node, whole, single = helper.make_node, TensorProto.INT64, TensorProto.FLOAT
    three, half = {"c": np.int64(3)}, {"h": np.float32(0.5), "c": np.float32(1)}
    scaled = [node("Mul", ["acc", "h"], ["t"]), node("Add", ["t", "c"], ["made"])]
    times3 = [node("Mul", ["acc", "c"], ["t"]), node("Add", ["t", "i"], ["made"])]
    double = {"h": np.float64(0.5), "c": np.float64(1)}
    vector = np.ones(KERNEL_FLOATS, np.float32)
    same, xor = node("Identity", ["acc"], ["made"]), node("BitwiseXor", ["acc", "i"], ["made"])
    return {
        "loop": loop(whole, [], np.array(1), [same], {}),
        "integer_xor": loop(whole, [], np.array(1), [xor], {}),
        "integer_multiply_add": loop(whole, [], np.array(1), times3, three),
        "float_multiply_add": loop(TensorProto.DOUBLE, [], np.array(1.0), scaled, double),
        "kernel": loop(single, [KERNEL_FLOATS], vector, scaled, half),
        "python": _python_rounds(_onnx_call()),
    }


def _session(graph: Any) -> Any:
    import onnxruntime
    from onnx import helper

    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    data = model.SerializeToString()
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def _onnx_call() -> Callable[[], Any]:
    import onnx
    from onnx import TensorProto, helper

    info = helper.make_tensor_value_info
    consts = {"two": np.float32(2), "one": np.float32(1)}
    graph = helper.make_graph(
        [
            helper.make_node("Relu", ["x"], ["a"]),
            helper.make_node("Mul", ["a", "two"], ["b"]),
            helper.make_node("Add", ["b", "one"], ["y"]),
        ],
        "call",
        [info("x", TensorProto.FLOAT, [FLOATS])],
        [info("y", TensorProto.FLOAT, [FLOATS])],
        [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in consts.items()],
    )
    session, x = _session(graph), np.linspace(-1, 1, FLOATS, dtype=np.float32)
    return lambda: session.run(None, {"x": x})


# --- PyTorch -------------------------------------------------------------------------------------


def _torch() -> dict[str, Run]:
    import torch

    torch.set_num_threads(1)

    def loop(start: Any, body: Callable[[Any, Any], Any]) -> Run:
        def run(length: int) -> Any:
            i, n, acc = torch.tensor(0), torch.tensor(length), start
            with torch.inference_mode():
                while i < n:
                    acc = body(acc, i)
                    i = i + 1
            return acc

        return run

    x = torch.linspace(-1, 1, FLOATS)
    return {
        "loop": loop(torch.tensor(1), lambda acc, i: acc),
        "integer_xor": loop(torch.tensor(1), lambda acc, i: acc ^ i),
        "integer_multiply_add": loop(torch.tensor(1), lambda acc, i: acc * 3 + i),
        "float_multiply_add": loop(
            torch.tensor(1.0, dtype=torch.float64), lambda acc, i: acc * 0.5 + 1
        ),
        "kernel": loop(torch.ones(KERNEL_FLOATS), lambda acc, i: acc * 0.5 + 1),
        "python": _python_rounds(lambda: torch.relu(x) * 2 + 1),
    }


# --- JAX -----------------------------------------------------------------------------------------


def _jax() -> dict[str, Run]:
    import jax
    from jax import lax

    jax.config.update("jax_enable_x64", True)

    def loop(start: Any, body: Callable[[Any, Any], Any]) -> Run:
        compiled = jax.jit(lambda n: lax.fori_loop(0, n, body, start))
        return lambda length: compiled(np.int64(length)).block_until_ready()

    one = np.int64(1)
    x = jax.numpy.linspace(-1, 1, FLOATS, dtype=np.float32)
    call = jax.jit(lambda v: jax.nn.relu(v) * 2 + 1)
    return {
        "integer_xor": loop(one, lambda i, acc: acc ^ i),
        "integer_multiply_add": loop(one, lambda i, acc: acc * 3 + i),
        "float_multiply_add": loop(np.float64(1), lambda i, acc: acc * 0.5 + 1),
        "kernel": loop(np.ones(KERNEL_FLOATS, np.float32), lambda i, acc: acc * 0.5 + 1),
        "python": _python_rounds(lambda: call(x).block_until_ready()),
    }


# --- IREE ----------------------------------------------------------------------------------------

_IREE_LOOP = """
func.func @main(%n: i64) -> i64 {{
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %c3 = arith.constant 3 : i64
  %r:2 = scf.while (%i = %c0, %acc = %c1) : (i64, i64) -> (i64, i64) {{
    %more = arith.cmpi slt, %i, %n : i64
    scf.condition(%more) %i, %acc : i64, i64
  }} do {{
  ^bb0(%i: i64, %acc: i64):
    {body}
    %j = arith.addi %i, %c1 : i64
    scf.yield %j, %made : i64, i64
  }}
  return %r#1 : i64
}}
"""


def _iree() -> dict[str, Run]:
    from iree import compiler, runtime

    def loop(body: str) -> Run:
        code = compiler.compile_str(_IREE_LOOP.format(body=body), target_backends=["llvm-cpu"])
        context = runtime.SystemContext(config=runtime.Config("local-sync"))
        context.add_vm_module(runtime.VmModule.copy_buffer(context.instance, code))
        function: Run = context.modules.module["main"]
        return function

    times = "%t = arith.muli %acc, %c3 : i64\n    %made = arith.addi %t, %i : i64"
    return {
        "integer_xor": loop("%made = arith.xori %acc, %i : i64"),
        "integer_multiply_add": loop(times),
    }


# --- TVM -----------------------------------------------------------------------------------------

_RELAX_LOOP = """
@I.ir_module
class Module:
    @R.function
    def loop(i: R.Tensor((), "int64"), acc: {kind}, n: R.Tensor((), "int64")) -> {kind}:
        more = R.less(i, n)
        if more:
            j = R.add(i, R.const(1, "int64"))
            {body}
            result = Module.loop(j, made, n)
        else:
            result = acc
        return result

    @R.function
    def main(acc: {kind}, n: R.Tensor((), "int64")) -> {kind}:
        result = Module.loop(R.const(0, "int64"), acc, n)
        return result
"""


def _relax() -> dict[str, Run]:
    import tvm
    from tvm import relax
    from tvm.script import from_source

    array = getattr(tvm.runtime, "tensor", None) or tvm.nd.array

    def loop(kind: str, start: np.ndarray, body: str) -> Run:
        module = from_source(_RELAX_LOOP.format(kind=kind, body=body))
        machine = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())
        function, first = machine["main"], array(start)
        return lambda length: function(first, array(np.array(length, np.int64)))

    whole, vector = 'R.Tensor((), "int64")', f'R.Tensor(({KERNEL_FLOATS},), "float32")'
    times = 't = R.multiply(acc, R.const(3, "int64"))\n            made = R.add(t, i)'
    scaled = 't = R.multiply(acc, R.const(0.5, "float32"))\n'
    scaled += '            made = R.add(t, R.const(1, "float32"))'
    one = np.array(1, np.int64)
    return {
        "integer_xor": loop(whole, one, "made = R.bitwise_xor(acc, i)"),
        "integer_multiply_add": loop(whole, one, times),
        "kernel": loop(vector, np.ones(KERNEL_FLOATS, np.float32), scaled),
    }
