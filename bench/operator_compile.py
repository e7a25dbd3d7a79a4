"""`python -m bench.operator_compile [TEXT...]`: how long each operator alone takes to compile cold.

Prints the calls of the test inputs that take longer than a limit, and where their time goes.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import relayvm
from relayvm.base.dims import ANY
from relayvm.base.dtypes import FLOAT32
from relayvm.ir.build import var
from relayvm.ir.expr import Attrs, Call, Function
from relayvm.ir.module import Module
from relayvm.ir.types import TensorType, TupleType, Type
from relayvm.kernels import build
from relayvm.kernels.codegen import kernel as codegen
from relayvm.ops import OPS

# The inputs of the completeness tests, which import each other by their plain names.
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "ops"))
cases = importlib.import_module("operator_cases")

LIMIT_MS = 60.0
# Where proofs about indices are remembered.
_FORGETFUL = ("relayvm.kernels.index", "relayvm.kernels.schedules", "relayvm.base.dims")


@dataclass
class Clock:
    """CPU time of named steps inside one compilation."""

    steps: dict[str, float] = field(default_factory=dict)

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, whose time is added to the step's."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                self.steps[name] = self.steps.get(name, 0.0) + time.process_time() - start

        return timed

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        """Time the steps that kernels take."""
        steps: tuple[tuple[str, Any, tuple[str, ...]], ...] = (
            ("schedule", build, ("schedule",)),
            ("LLVM IR", codegen, ("nest_functions", "inlined_function")),
            ("LLVM", codegen, ("compile_object",)),
        )
        for name, module, functions in steps:
            for function in functions:
                patch.setattr(module, function, self.wrap(name, getattr(module, function)))


def unknown(given: Type) -> Type:
    """Return the type with every size `?`."""
    if isinstance(given, TupleType):
        return TupleType(tuple(map(unknown, given.fields)))
    assert isinstance(given, TensorType)
    return TensorType((ANY,) * given.rank, given.dtype)


@dataclass(frozen=True)
class Row:
    """One call of an operator: the number of its test input, and whether its sizes are known."""

    operator: str
    case: int
    kind: str

    def module(self) -> Module:
        """Return a program of this call alone."""
        op, case = OPS[self.operator], cases.CASES[self.operator][self.case]
        options = list(cases.dtypes_of(op, case))
        dtypes = next((o for o in options if o and o[0] is FLOAT32), options[0])
        types: tuple[Type, ...] = cases.types_of(case, dtypes)
        if self.kind == "unknown":
            types = tuple(t if i in case.known else unknown(t) for i, t in enumerate(types))
        params = tuple(var(f"x{i}", t) for i, t in enumerate(types))
        return Module({"main": Function(params, Call(op, params, Attrs(case.attrs)))})


def rows(texts: list[str]) -> Iterator[Row]:
    """Yield the calls of the operators with one of the texts in their names, or of all."""
    for name, inputs in sorted(cases.CASES.items()):
        if texts and not any(text in name for text in texts):
            continue
        for kind in ("static", "unknown"):
            yield from (Row(name, i, kind) for i in range(len(inputs)))


def measure(row: Row, limit_ms: float = LIMIT_MS) -> Clock | None:
    """Return where the CPU time of a cold compilation goes; None where the operator must know its
    sizes. What is a little over the limit is measured again: it may have been disturbed.
    """
    best: Clock | None = None
    for _ in range(3):
        forget()
        clock = Clock()
        with pytest.MonkeyPatch.context() as patch:
            clock.watch(patch)
            try:
                clock.wrap("all", relayvm.compile)(row.module())
            except relayvm.RelayError:
                return None
        if best is None or clock.steps["all"] < best.steps["all"]:
            best = clock
        if not limit_ms < 1000 * best.steps["all"] < 1.3 * limit_ms:
            break
    return best


def forget() -> None:
    """Drop what index arithmetic of earlier kernels left in memory."""
    for name, module in list(sys.modules.items()):
        if name.startswith(_FORGETFUL):
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", nargs="*", help="operators with one of these in their names")
    parser.add_argument("--limit", type=float, default=LIMIT_MS, help="milliseconds")
    parser.add_argument("--part", default="0/1", help="`I/N`: each N-th row, from the I-th")
    options = parser.parse_args()
    first, parts = map(int, options.part.split("/"))
    os.environ |= {"RELAYVM_CACHE": "", "RELAYVM_COMPILE_WORKERS": "0"}
    measure(Row("exp", 0, "static"))  # what is imported or made ready once counts for none
    total, slow = 0, 0
    for row in list(rows(options.texts))[first::parts]:
        clock = measure(row, options.limit)
        if clock is None:
            continue
        total += 1
        whole = clock.steps.pop("all") * 1000
        if whole > options.limit:
            slow += 1
            steps = [(name, 1000 * seconds) for name, seconds in clock.steps.items()]
            steps.append(("the rest", whole - sum(ms for _, ms in steps)))
            split = ", ".join(f"{name} {ms:.0f}" for name, ms in steps)
            print(f"{whole:7.0f} ms {row.kind:8} {row.operator} {row.case}: {split}", flush=True)
    print(f"{slow} of {total} calls take longer than {options.limit:.0f} ms")


if __name__ == "__main__":
    main()
