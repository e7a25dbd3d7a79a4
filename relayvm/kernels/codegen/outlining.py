"""Scalar functions that a kernel uses often, as LLVM functions of their own that it calls."""

from __future__ import annotations

from dataclasses import dataclass, field

from relayvm.base.dtypes import DType
from relayvm.kernels.codegen.emitter import Emitter, LlvmMachine, type_text
from relayvm.kernels.scalar_ops import ScalarOp
from relayvm.kernels.scalars.value import Value

# A call costs about this many instructions, for what is in registers must be saved around it.
_LEAST_WEIGHT = 24
# Uses are written in place until they weigh this much for their own weight: the longer a function
# is, the less does a call cost beside it, and the more does another copy.
_INLINED_WEIGHT = 40_000

Kind = tuple[str, DType, int]


@dataclass(eq=False)
class Outlined:
    """The functions of one kernel, by name, and how often each kind was written in place.

    `prefix` tells their names from those of other kernels. Loops for whole vectors come before
    those for what is left, so it is the latter that call.
    """

    prefix: str
    texts: dict[str, str] = field(default_factory=dict)
    _weights: dict[Kind, int] = field(default_factory=dict)
    _uses: dict[Kind, int] = field(default_factory=dict)

    def apply(self, op: ScalarOp, values: list[Value], emitter: Emitter, lanes: int) -> str:
        """Write a scalar function of values of one dtype, in place or as a call."""
        dtype = values[0].dtype
        kind = (op.name, dtype, lanes)
        uses = self._uses.get(kind, 0)
        if uses and uses * self._weights[kind] ** 2 >= _INLINED_WEIGHT:
            return self._call(op, kind, values, emitter)
        before = emitter.weight
        result = str(op.program(*values).raw)
        weight = emitter.weight - before
        # Less where parts of it were at hand.
        weight = self._weights[kind] = max(weight, self._weights.get(kind, 0))
        if weight >= _LEAST_WEIGHT:
            self._uses[kind] = uses + 1
        return result

    def _call(self, op: ScalarOp, kind: Kind, values: list[Value], emitter: Emitter) -> str:
        name, dtype, lanes = kind
        symbol = f"{self.prefix}.{name}.{dtype}.{lanes}"
        if symbol not in self.texts:
            self.texts[symbol] = _function(symbol, op, dtype, lanes)
        given = ", ".join(f"{type_text(dtype, lanes)} {value.raw}" for value in values)
        return emitter.value(f"call {type_text(op.result(dtype), lanes)} @{symbol}({given})")


def _function(symbol: str, op: ScalarOp, dtype: DType, lanes: int) -> str:
    emitter = Emitter()
    machine = LlvmMachine(emitter, lanes)
    names = [f"%x{number}" for number in range(op.arity)]
    result = op.program(*(Value(machine, name, dtype) for name in names)).raw
    type_ = type_text(op.result(dtype), lanes)
    given = ", ".join(f"{type_text(dtype, lanes)} {name}" for name in names)
    head = f"define internal {type_} @{symbol}({given}) #0 {{"
    end = f"  ret {type_} {result}"
    return "\n".join([head, "entry:", *emitter.entry, *emitter.lines, end, "}", ""])
