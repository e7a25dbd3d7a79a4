"""`relay.build`, `relay.optimize` and `relay.create_executor`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from relayvm.base.diagnostics import error
from relayvm.compiler.optimize import optimize as optimize_module
from relayvm.ir.expr import Function, Var
from relayvm.ir.module import Module
from relayvm.relay.backend.config import Executor as ExecutorChoice
from relayvm.relay.backend.config import Runtime
from relayvm.relay.backend.executor_factory import ExecutorFactoryModule
from relayvm.relay.backend.interpreter import Executor, Interpreter
from relayvm.relay.backend.vm import VMExecutor, built, opt_level, with_params
from relayvm.relay.binding import bind_variables
from relayvm.relay.module import IRModule, unwrap, wrap
from relayvm.relay.namespace.transform import PassContext
from relayvm.relay.ndarray import NDArray, as_ndarray

Params = Mapping[str, Any]

GRAPH = ExecutorChoice("graph")
CPP = Runtime("cpp")


def build_config(
    opt_level: int = 2,
    required_pass: Any = None,
    disabled_pass: Any = None,
    trace: Any = None,
) -> PassContext:
    """Return a pass context; the old name of it."""
    if trace is not None:
        raise error("bad-option", "`trace` is not known any more", help="use an instrument")
    return PassContext(opt_level, required_pass, disabled_pass)


def build(
    ir_mod: Any,
    target: Any = None,
    target_host: Any = None,
    executor: Any = GRAPH,
    runtime: Any = CPP,
    workspace_memory_pools: Any = None,
    constant_memory_pools: Any = None,
    params: Params | None = None,
    mod_name: str = "default",
) -> ExecutorFactoryModule:
    """Return the compiled program of a module or function.

    It runs on the machine whatever `executor` and `runtime` say, so that dynamic shapes and control
    flow work; `params` are compiled into it. Memory pools are the machine's own affair.
    """
    module = unwrap(ir_mod)
    executable = built(with_params(module, params or {}), target)
    given = {name: as_ndarray(np.asarray(value)) for name, value in (params or {}).items()}
    return ExecutorFactoryModule(executable, given, ir_mod, target, mod_name)


def optimize(
    mod: Any, target: Any = None, params: Params | None = None
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return the module after all passes of the open context's level, and the parameters."""
    module = with_params(unwrap(mod), params or {})
    given = {name: as_ndarray(np.asarray(value)) for name, value in (params or {}).items()}
    return wrap(optimize_module(module, opt_level=opt_level()).module), given


def bind_params_by_name(func: Function, params: Params) -> Function:
    """Return the function with parameters replaced by values; names that it lacks are skipped."""
    names = {p.name for p in func.params}
    values: dict[Var | str, Any] = {n: np.asarray(v) for n, v in params.items() if n in names}
    bound = bind_variables(func, values)
    assert isinstance(bound, Function)
    return bound


class BuildModule:
    """`relay.build` in steps."""

    def __init__(self) -> None:
        self._factory: ExecutorFactoryModule | None = None
        self._params: dict[str, NDArray] = {}

    def build(
        self,
        mod: Any,
        target: Any = None,
        target_host: Any = None,
        executor: Any = GRAPH,
        runtime: Any = CPP,
        workspace_memory_pools: Any = None,
        constant_memory_pools: Any = None,
        params: Params | None = None,
        mod_name: str | None = None,
    ) -> tuple[str, Any, dict[str, NDArray]]:
        """Return the graph, the library and the parameters of a module."""
        self._factory = build(
            mod,
            target,
            target_host,
            executor,
            runtime,
            params=params or self._params,
            mod_name=mod_name or "default",
        )
        graph, library, given = self._factory
        return graph, library, given

    def optimize(
        self, mod: Any, target: Any = None, target_host: Any = None, params: Params | None = None
    ) -> tuple[IRModule, dict[str, NDArray]]:
        """Return the module after all passes, and the parameters."""
        return optimize(mod, target, params)

    def set_params(self, params: Params) -> None:
        """Give values to parameters of `main`."""
        self._params = {name: as_ndarray(np.asarray(v)) for name, v in params.items()}

    def get_params(self) -> dict[str, NDArray]:
        """Return the values that were given."""
        return dict(self._params)

    def get_graph_json(self) -> str:
        """Return the graph of what was built."""
        return self._built().graph_json

    get_json = get_graph_json

    def get_module(self) -> Any:
        """Return the library of what was built."""
        return self._built().get_lib()

    def get_devices(self) -> list[str]:
        """Return the devices of other kinds that were compiled for: none."""
        return []

    def get_irmodule(self) -> Any:
        """Return the module that was built."""
        return self._built().ir_mod

    def _built(self) -> ExecutorFactoryModule:
        if self._factory is None:
            raise error("not-ready", "`build` comes first")
        return self._factory


class GraphExecutor(VMExecutor):
    """The machine under the name of the graph executor."""


class AotExecutor(VMExecutor):
    """The machine under the name of the ahead-of-time executor."""


EXECUTORS: dict[str, Callable[..., Executor]] = {
    "debug": Interpreter,
    "graph": GraphExecutor,
    "vm": VMExecutor,
    "aot": AotExecutor,
}


def create_executor(
    kind: str = "debug",
    mod: Any = None,
    device: Any = None,
    target: Any = "llvm",
    params: Params | None = None,
) -> Executor:
    """Return an executor of a kind: `debug` evaluates programs as they stand, `graph`, `vm` and
    `aot` compile them for the machine.

    `params` are values of parameters of the module's `main`.
    """
    if kind not in EXECUTORS:
        known = ", ".join(f"`{name}`" for name in EXECUTORS)
        raise error("bad-option", f"there is no executor `{kind}`; known are {known}")
    module = Module() if mod is None else unwrap(mod)
    if params:
        module = with_params(module, params)
    return EXECUTORS[kind](module, device, target)
