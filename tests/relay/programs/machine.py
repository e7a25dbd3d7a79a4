"""How the programs here are run: on every executor that takes them, compared with each other."""

from __future__ import annotations

from typing import Any

import numpy as np

import relayvm as tvm
from relayvm import relay


def veval(program: Any, *args: Any, params: dict[str, Any] | None = None) -> Any:
    """Return what `main` gives on the virtual machine."""
    if isinstance(program, relay.Expr):
        assert isinstance(program, relay.Function)
        mod = tvm.IRModule()
        mod["main"] = program
    else:
        mod = program
    exe = relay.vm.compile(mod, "llvm", params=params)
    code, lib = exe.save()
    loaded = tvm.runtime.vm.Executable.load_exec(code, lib)
    return tvm.runtime.vm.VirtualMachine(loaded, tvm.cpu()).invoke("main", *args)


def check_result(
    args: list[Any], expected: Any, mod: Any = None, kinds: tuple[str, ...] = ("debug", "vm")
) -> None:
    """Compare the results of `main` on each executor with what is expected."""
    for kind in kinds:
        executor = relay.create_executor(kind, mod=mod, device=tvm.cpu(), target="llvm")
        result = executor.evaluate()(*args)
        compare(result, expected)


def compare(result: Any, expected: Any) -> None:
    if isinstance(result, tvm.runtime.container.ADT):
        assert len(result) == len(expected)
        for r, e in zip(result, expected):
            compare(r, e)
    else:
        tvm.testing.assert_allclose(result.numpy(), expected, rtol=1e-5, atol=1e-6)


def vmobj_to_list(value: Any) -> list[Any]:
    """Return the numbers of a value of tensors, tuples and data types, from the left."""
    if isinstance(value, tvm.nd.NDArray):
        return [value.numpy().tolist()]
    if isinstance(value, tvm.runtime.container.ADT):
        return [item for field in value for item in vmobj_to_list(field)]
    raise AssertionError(f"unexpected {type(value)}")


def run_infer_type(expr: Any) -> Any:
    return relay.testing.run_infer_type(expr)


RNG = np.random.default_rng(7)
