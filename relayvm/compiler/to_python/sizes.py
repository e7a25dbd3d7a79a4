"""Sizes as text: symbols are read from the arguments of a function where it needs them."""

from __future__ import annotations

from dataclasses import dataclass

from relayvm.base.dims import Dim, DimExpr, DimVar, dim_substitute, dim_text, dim_variables, symbol
from relayvm.compiler.to_python.frames import Frame, Uses
from relayvm.compiler.to_python.text import Names
from relayvm.ir.expr import Call
from relayvm.ir.types import TensorType, TupleType, Type


@dataclass(frozen=True, slots=True)
class Sizes:
    """Knows the sizes of one global function; `uses` is told the helpers that texts need."""

    names: Names
    uses: Uses

    def text(self, dim: Dim, frame: Frame) -> str | None:
        """Return a size as text; None if the function cannot tell it."""
        if not isinstance(dim, DimExpr):
            return str(dim) if isinstance(dim, int) else None
        known: dict[DimVar, Dim] = {}
        for variable in dim_variables(dim):
            name = self._name(variable, frame)
            if name is None:
                return None
            known[variable] = symbol(DimVar(name))
        text = dim_text(dim_substitute(dim, known))
        if "broadcast(" in text:
            self.uses("broadcast")
        return text

    def _name(self, variable: DimVar, frame: Frame | None) -> str | None:
        while frame is not None:
            if variable in frame.dims:
                return frame.dims[variable]
            for param, name in zip(frame.function.params, frame.params):
                path = _place_of(variable, param.type_annotation or param.checked_type, name)
                if path is not None:
                    frame.dims[variable] = self.names.new(variable.name)
                    frame.dim_lines.append(f"{frame.dims[variable]} = {path}")
                    return frame.dims[variable]
            frame = frame.parent
        return None

    def texts(self, node: Call, frame: Frame) -> dict[Dim, str]:
        """Return the texts of the symbolic sizes in the attributes of a call."""
        found: dict[Dim, str] = {}
        stack = list(node.attrs.values())
        while stack:
            value = stack.pop()
            if isinstance(value, tuple):
                stack.extend(value)
            elif isinstance(value, DimExpr):
                found[value] = self.text(value, frame) or "None"
        return found


def _place_of(variable: DimVar, type_: Type | None, text: str) -> str | None:
    """Return where a size stands alone in a value of a type."""
    stack = [(type_, text)]
    while stack:
        part, path = stack.pop()
        if isinstance(part, TupleType):
            stack += [(f, f"{path}[{i}]") for i, f in enumerate(part.fields)][::-1]
        elif isinstance(part, TensorType):
            for axis, dim in enumerate(part.shape):
                if isinstance(dim, DimExpr) and dim.variable is variable:
                    return f"{path}.shape[{axis}]"
    return None
