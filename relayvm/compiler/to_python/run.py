"""Running a program through its Python text."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from relayvm.base.diagnostics import Diagnostic, Trap
from relayvm.base.shapes import ShapeError
from relayvm.base.trampoline import Recursive, trampoline
from relayvm.compiler.host.arguments import ArgumentTypes, bound
from relayvm.compiler.host.values import DataValue, Reference
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.to_python.program import write
from relayvm.ir.module import Module
from relayvm.ops import OPS

STACK_BYTES = 512 << 20
MOST_CALLS = 200_000


class PythonProgram:
    """A program as Python `text`, ready to be called."""

    def __init__(self, module: Module) -> None:
        self.module = infer_types(module)
        self._types = ArgumentTypes(self.module)
        self.text, shared = write(self.module)
        self._function_names = shared.function_names
        self._classes = shared.classes
        self._names: dict[str, Any] = {"__name__": "relay_program"}
        with np.errstate():  # The text sets it for whoever runs it alone.
            exec(compile(self.text, "<python of a Relay program>", "exec"), self._names)
        if shared.operators:
            self._names["OPS"] = {**OPS, **shared.operators}

    def call(self, name: str, args: Sequence[Any] = ()) -> Any:
        """Return the result of a global function; values are those of the evaluator.

        Raises Trap where the run stops, RelayError `wrong-argument`.
        """
        params = self.module[name].params
        values = bound(self._types, name, params, args, _fits_function, lambda value: None)
        return self._apply(self._names[self._function_names[name]], values)

    def _apply(self, function: Callable[..., Any], values: Sequence[Any]) -> Any:
        given = [trampoline(self._to_python(value)) for value in values]

        def run() -> Any:
            with np.errstate(all="ignore"):
                return function(*given)

        try:
            result = with_deep_stack(run)
        except Exception as reason:
            trap = self._trap(reason)
            if trap is None:
                raise
            raise trap from None
        known: dict[int, Reference] = {}
        for value in given:  # The host sees what was written to its references.
            trampoline(self._to_value(value, known))
        return trampoline(self._to_value(result, known))

    def _trap(self, reason: Exception) -> Trap | None:
        """Return what stopped a run as a trap; None for what is no fault of the program."""
        if isinstance(reason, self._names.get("Trap", ())):
            return Trap(Diagnostic(*reason.args), ())
        codes: tuple[tuple[type[Exception], str], ...] = (
            (RecursionError, "out-of-depth"),
            (ShapeError, "run-time-shape"),
            (ValueError, "run-time-shape"),
            (IndexError, "index-out-of-range"),
            (MemoryError, "out-of-memory"),
        )
        code = next((code for kind, code in codes if isinstance(reason, kind)), None)
        if isinstance(reason, ShapeError) and reason.code == "bad-value":
            code = reason.code
        return None if code is None else Trap(Diagnostic(code, str(reason) or code), ())

    def _to_python(self, value: Any) -> Recursive[Any]:
        if isinstance(value, DataValue):
            fields = []
            for part in value.fields:
                fields.append((yield self._to_python(part)))
            return self._names[self._classes[value.type_name, value.tag]](*fields)
        if isinstance(value, (tuple, list)):
            parts = []
            for part in value:
                parts.append((yield self._to_python(part)))
            return type(value)(parts)
        if isinstance(value, Reference):
            # What the text does with a reference is done with `value` alone.
            value.value = yield self._to_python(value.value)
        return value

    def _to_value(self, value: Any, known: dict[int, Reference]) -> Recursive[Any]:
        if isinstance(value, (tuple, list)):
            parts = []
            for part in value:
                parts.append((yield self._to_value(part, known)))
            return type(value)(parts)
        if isinstance(value, self._names.get("Data", ())):
            fields = []
            for part in value.fields:
                fields.append((yield self._to_value(part, known)))
            return DataValue(value.name, value.type_name, value.tag, tuple(fields))
        if isinstance(value, (Reference, self._names.get("Ref", Reference))):
            if id(value) not in known:
                known[id(value)] = made = value if isinstance(value, Reference) else Reference(None)
                made.value = yield self._to_value(value.value, known)
            return known[id(value)]
        if callable(value):
            return lambda *args: self._apply(value, args)
        return np.asarray(value)


def _fits_function(value: Any, num_params: int) -> bool:
    return callable(value)


def with_deep_stack(run: Callable[[], Any]) -> Any:
    """Return what `run` returns, called where Python's calls may nest deep."""
    outcome: list[Any] = []
    failure: list[BaseException] = []

    def work() -> None:
        try:
            outcome.append(run())
        except BaseException as reason:
            failure.append(reason)

    old_size, old_limit = threading.stack_size(STACK_BYTES), sys.getrecursionlimit()
    sys.setrecursionlimit(max(MOST_CALLS, old_limit))
    try:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(old_size)
        sys.setrecursionlimit(old_limit)
    if failure:
        raise failure[0]
    return outcome[0]
