"""Compilation for the machine, and the executor that runs compiled programs, by TVM's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from relayvm.base.diagnostics import error
from relayvm.base.process import lazy_property
from relayvm.base.target import Target
from relayvm.compiler.api import compile as compile_module
from relayvm.compiler.entries import bind_params
from relayvm.compiler.optimize import optimize
from relayvm.ir.module import Module
from relayvm.relay import machine as relay_machine
from relayvm.relay.backend.entry import Entry
from relayvm.relay.backend.interpreter import Executor, Runner
from relayvm.relay.backend.per_types import PerTypes
from relayvm.relay.lazy import absent
from relayvm.relay.machine import Executable
from relayvm.relay.module import IRModule, unwrap, wrap
from relayvm.relay.namespace.transform import PassContext
from relayvm.relay.ndarray import NDArray, as_ndarray, cpu
from relayvm.relay.node import as_mapping
from relayvm.relay.values import to_argument, to_relay
from relayvm.vm.machine import VirtualMachine

Params = Mapping[str, Any]


def compile(
    mod: Any,
    target: Any = None,
    target_host: Any = None,
    params: Params | None = None,
) -> Executable:
    """Return the executable of a module; `params` are values of parameters of `main`, by name."""
    compiler = VMCompiler()
    if params:
        compiler.set_params(params)
    compiler.lower(mod, target, target_host)
    compiler.codegen()
    return compiler.get_exec()


class VMCompiler:
    """A compilation in steps: `set_params`, `lower` or `optimize`, `codegen`, `get_exec`."""

    def __init__(self) -> None:
        self._params: dict[str, NDArray] = {}
        self._module: Module | None = None
        self._target: Any = None
        self._executable: Executable | None = None

    def set_params(self, params: Params) -> None:
        """Give values to parameters of `main`."""
        given = as_mapping(params, "`params`")
        self._params = {name: as_ndarray(np.asarray(value)) for name, value in given.items()}

    def get_params(self) -> dict[str, NDArray]:
        """Return the values that were given."""
        return dict(self._params)

    def lower(self, mod: Any, target: Any = None, target_host: Any = None) -> None:
        """Take the module that is compiled."""
        self._module = with_params(unwrap(mod), self._params)
        self._target = target

    def optimize(
        self, mod: Any, target: Any = None, target_host: Any = None, params: Params | None = None
    ) -> tuple[IRModule, dict[str, NDArray]]:
        """Return the module after all passes, and the parameters."""
        if params:
            self.set_params(params)
        module = with_params(unwrap(mod), self._params)
        lowered = optimize(module, opt_level=opt_level()).module
        return wrap(lowered), self.get_params()

    def codegen(self) -> None:
        """Compile the module that `lower` took."""
        if self._module is None:
            raise error("not-ready", "`codegen` comes after `lower`")
        self._executable = built(self._module, self._target)

    def get_exec(self) -> Executable:
        """Return the executable that `codegen` made."""
        if self._executable is None:
            raise error("not-ready", "`get_exec` comes after `codegen`")
        return self._executable


def opt_level() -> int:
    """Return the optimisation level of the pass context that is open."""
    return min(4, max(0, PassContext.current().opt_level))


def built(module: Module, target: Any, entries: list[str] | None = None) -> Executable:
    """Return the executable of a module for a target."""
    made = compile_module(
        module, target=native_target(target), opt_level=opt_level(), entries=entries
    )
    executable = Executable(made)
    executable.source = module
    return executable


def native_target(target: Any) -> Target:
    """Return the target that TVM's `llvm -mcpu=...`, a `Target` or a mapping of devices means."""
    if target is None:
        return Target()
    if isinstance(target, Target):
        return target
    if isinstance(target, Mapping) and "kind" not in target:
        target = next(iter(target.values()), "llvm")
    if isinstance(target, (list, tuple)):
        target = target[0] if target else "llvm"
    inner = getattr(target, "native", None)
    if isinstance(inner, Target):
        return inner
    words = str(target).split()
    kind, options = (words[0], words[1:]) if words else ("llvm", [])
    known = [o for o in options if o.startswith(("-mtriple=", "-mcpu=", "-mattr="))]
    return Target.parse(" ".join(["cpu" if kind in ("llvm", "c") else kind, *known]))


def with_params(module: Module, params: Params, entry: str = "main") -> Module:
    """Return the module with parameters of an entry bound; names that it lacks are skipped, as in
    TVM.

    Raises RelayError `wrong-argument` for an array of another type than the parameter's.
    """
    given = as_mapping(params, "`params`")
    names = {p.name for p in module[entry].params} if given else set()
    values = {name: np.asarray(value) for name, value in given.items() if name in names}
    return bind_params(module, values, entry)


class VMExecutor(Executor):
    """Compiles what it evaluates and runs it on the machine."""

    @lazy_property
    def executable(self) -> Executable:
        """The compiled module."""
        return built(self._module(), self.target)

    @property
    def vm(self) -> relay_machine.VirtualMachine:
        """A machine that runs the module."""
        return relay_machine.VirtualMachine(self.executable, self.device or cpu())

    def _runner(self, entry: Entry) -> Runner:
        machines = PerTypes(entry, self._machine)

        def run(*args: Any, **kwargs: Any) -> Any:
            values = entry.bound(args, kwargs)
            machine, name = machines.get(values)
            result = machine.invoke(name, *(to_argument(v) for v in values))
            return to_relay(result, entry.module)

        return run

    def _machine(self, entry: Entry) -> tuple[VirtualMachine, str]:
        executable = built(entry.module, self.target, [entry.name])
        return VirtualMachine(executable.native), entry.name


__all__ = [
    "VMCompiler",
    "VMExecutor",
    "built",
    "compile",
    "native_target",
    "opt_level",
    "with_params",
]


__getattr__ = absent("relayvm.relay.backend.vm")
