"""Sizes as text: symbols are read from the arguments of a function where it needs them."""

from __future__ import annotations

from collections.abc import Iterator

from relayvm.base.diagnostics import error
from relayvm.base.dims import (
    Dim,
    DimExpr,
    DimVar,
    dim_substitute,
    dim_text,
    dim_variables,
    linear_dim,
    symbol,
)
from relayvm.base.source import Span
from relayvm.compiler.kinds import check_parts
from relayvm.compiler.to_python.frames import Frame, Uses
from relayvm.compiler.to_python.text import Names, tuple_text
from relayvm.ir.expr import Call, Var
from relayvm.ir.types import TensorType, TupleType, Type
from relayvm.ir.visit import SomePart, TypeWords


class Sizes:
    """Knows the sizes of one global function; `uses` is told the helpers that texts need."""

    def __init__(self, names: Names, uses: Uses) -> None:
        self.names = names
        self.uses = uses
        self._symbolic = SomePart(_is_symbolic)
        self._words = TypeWords()

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
            source = self._source(variable, frame)
            if source is not None:
                frame.dims[variable] = self.names.new(variable.name)
                frame.dim_lines.append(f"{frame.dims[variable]} = {source}")
                return frame.dims[variable]
            frame = frame.parent
        return None

    def _source(self, variable: DimVar, frame: Frame) -> str | None:
        """Return what a size is of the parameters: where it stands alone, else what it is there."""
        solved: str | None = None
        for param, name in zip(frame.function.params, frame.params):
            for path, dim in self._axes(param.type_annotation or param.checked_type, name):
                linear = linear_dim(dim)
                if linear is None or linear[0] is not variable:
                    continue
                _, factor, rest = linear
                if (factor, rest) == (1, 0):
                    return path
                if solved is None:
                    moved = f"{path} - {rest}" if rest > 0 else f"{path} + {-rest}"
                    solved = moved if rest else path
                    if factor != 1:
                        solved = f"({solved}) // {factor}" if rest else f"{solved} // {factor}"
                    solved = f"max({solved}, 0)" if rest > 0 else solved
        return solved

    def check_params(self, frame: Frame) -> None:
        """Write that parameters have the sizes that names of sizes stand for, beside the places
        that tell them.
        """
        for param, name in zip(frame.function.params, frame.params):
            self._check_parts(param, frame.function.span)
            parts: dict[str, list[str]] = {}
            told = False
            for path, dim in self._axes(param.type_annotation or param.checked_type, name):
                text = self.text(dim, frame) if isinstance(dim, DimExpr) else None
                told |= text is not None and f"{text} = {path}" not in frame.dim_lines
                parts.setdefault(path.rpartition(".shape[")[0], []).append(text or "None")
            if told:
                for tensor, texts in parts.items():
                    what = f"parameter `%{param.name}`"
                    line = f"{self.uses('check')}({tensor}, {tuple_text(texts)}, {what!r})"
                    frame.dim_lines.append(line)

    def _check_parts(self, param: Var, span: Span | None) -> None:
        kind = param.checked_type or param.type_annotation
        if kind is not None and self._symbolic(kind):
            check_parts(kind, param.span or span, self._words)

    def texts(self, node: Call, frame: Frame) -> dict[Dim, str]:
        """Return the texts of the symbolic sizes in the attributes of a call.

        Raises RelayError `unreadable-dim` for one that no parameter tells.
        """
        found: dict[Dim, str] = {}
        stack = list(node.attrs.values())
        while stack:
            value = stack.pop()
            if isinstance(value, tuple):
                stack.extend(value)
            elif isinstance(value, DimExpr):
                text = self.text(value, frame)
                if text is None:
                    message = f"the size `{value}` is needed, but no tensor parameter has it"
                    raise error("unreadable-dim", f"{message} as an axis", node.span)
                found[value] = text
        return found

    def _axes(self, type_: Type | None, text: str) -> Iterator[tuple[str, Dim]]:
        """Yield the sizes of the tensors in a value of a type that have symbolic ones, as texts,
        and what is declared of each.
        """
        stack = [(type_, text)]
        while stack:
            part, path = stack.pop()
            if part is None or not self._symbolic(part):
                continue
            if isinstance(part, TupleType):
                stack += [(f, f"{path}[{i}]") for i, f in enumerate(part.fields)][::-1]
            elif isinstance(part, TensorType):
                for axis, dim in enumerate(part.shape):
                    yield f"{path}.shape[{axis}]", dim


def _is_symbolic(part: Type) -> bool:
    return isinstance(part, TensorType) and any(isinstance(d, DimExpr) for d in part.shape)
