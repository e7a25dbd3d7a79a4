"""One program being lowered: its functions, and the tables that they share."""

from __future__ import annotations

import numpy as np

from relayvm.compiler.lower.kernels import KernelTable
from relayvm.compiler.lower.layouts import Layouts
from relayvm.compiler.lower.linear import LinearFunction
from relayvm.ir.expr import (
    Call,
    Constructor,
    Function,
    GlobalVar,
    Var,
)
from relayvm.ir.module import Module
from relayvm.ir.printer import print_type
from relayvm.ir.types import FuncType, Type
from relayvm.ir.visit import post_order

# Of how many bytes at most it is seen whether constants may be equal.
_SAMPLED = 4096


class Unit:
    """The tables of one program.

    `lifted` are the bodies of closures by name, `owned` the functions that must hold all their
    parameters because closures call them in tail position, `used` all variables that are read.
    """

    def __init__(self, module: Module, *, uniform: bool) -> None:
        self.module = module
        self.layouts = Layouts(module, uniform)
        self.kernels = KernelTable()
        self.lifted = {n: f for n, f in module.functions.items() if is_lifted(f)}
        self.owned: set[str] = set()
        self.used: set[Var] = set()
        self.constants: list[np.ndarray] = []
        self.functions: dict[str, LinearFunction] = {}
        # By dtype, shape and some bytes: those whose other bytes may differ.
        self._constant_numbers: dict[tuple[str, tuple[int, ...], bytes], list[int]] = {}
        self._constants_seen: dict[int, tuple[np.ndarray, int]] = {}
        self._wrappers: dict[str, Function] = {}
        self._scan()

    def _scan(self) -> None:
        for function in self.module.functions.values():
            callees: set[int] = set()
            for expr in post_order(function):
                if isinstance(expr, Var):
                    self.used.add(expr)
                elif isinstance(expr, Call):
                    callees.add(id(expr.op))
            for expr in post_order(function):
                if isinstance(expr, GlobalVar) and id(expr) not in callees:
                    self.owned.add(expr.name)

    def constant(self, data: np.ndarray) -> int:
        """Return the number of a constant; equal ones are stored once."""
        known = self._constants_seen.get(id(data))
        if known is not None:
            return known[1]
        dense = np.ascontiguousarray(data)
        whole = dense.reshape(-1).view(np.uint8)
        key = (dense.dtype.name, data.shape, whole[:: len(whole) // _SAMPLED + 1].tobytes())
        alike = self._constant_numbers.setdefault(key, [])
        number = next((k for k in alike if _same_bytes(self.constants[k], dense)), None)
        if number is None:
            number = len(self.constants)
            alike.append(number)
            self.constants.append(dense)
        # The array is kept: its identity must not pass to another one.
        self._constants_seen[id(data)] = (data, number)
        return number

    def closure_layout(self, name: str) -> int:
        """Return the layout of closures over a lifted function or a wrapper."""
        lifted = self.lifted[name] if name in self.lifted else self._wrappers[name]
        kind = lifted.ret_type
        assert isinstance(kind, FuncType)
        captures = [_annotation(p) for p in lifted.params]
        return self.layouts.closure(name, captures, self.layouts.signature(kind))

    def wrapper(self, callee: GlobalVar | Constructor, kind: FuncType) -> int:
        """Return the layout of closures without captures that call a global function or
        constructor.
        """
        name = f"{callee.name}.closure"
        if self.layouts.uniform or isinstance(callee, Constructor):
            name += f"<{print_type(kind)}>"
        if name not in self._wrappers:
            params = tuple(
                Var(f"a{i}", t, span=callee.span, checked_type=t)
                for i, t in enumerate(kind.arg_types)
            )
            call = Call(callee, params, span=callee.span, checked_type=kind.ret_type)
            inner = Function(params, call, kind.ret_type, span=callee.span, checked_type=kind)
            self._wrappers[name] = Function((), inner, kind, span=callee.span)
        return self.closure_layout(name)

    def take_wrappers(self) -> dict[str, Function]:
        """Return the wrappers for which there is no code yet."""
        return {n: f for n, f in self._wrappers.items() if n not in self.functions}


def _same_bytes(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.array_equal(a.reshape(-1).view(np.uint8), b.reshape(-1).view(np.uint8)))


def is_lifted(function: Function) -> bool:
    """Tell whether a global function is the body of a closure: it returns the closure."""
    return bool(function.attrs.get("Closure"))


def _annotation(var: Var) -> Type:
    kind = var.checked_type or var.type_annotation
    assert kind is not None
    return kind
