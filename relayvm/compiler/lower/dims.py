"""Sizes as words: emits the arithmetic of symbolic dims from the tensors whose axes they name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from relayvm.base.diagnostics import InternalError, error
from relayvm.base.dims import (
    AnyDim,
    Dim,
    DimExpr,
    DimTerm,
    DimVar,
    dim_variables,
    linear_dim,
)
from relayvm.base.source import Span
from relayvm.compiler.analysis.sizes import axes_of
from relayvm.compiler.lower.linear import WORD, Def, Reg, Use
from relayvm.ir.expr import Var
from relayvm.ir.types import TensorType, TupleType, Type

if TYPE_CHECKING:
    from relayvm.compiler.lower.code import Code

Place = tuple[Var, tuple[int, ...], int]  # a variable, a path through tuples, an axis

_TERMS = {
    "//": "floor_divide_i64",
    "%": "floor_mod_i64",
    "min": "minimum_i64",
    "max": "maximum_i64",
}


class DimCode:
    """The sizes that one function knows, and the words already computed in the current scope."""

    def __init__(self, selector: Code) -> None:
        self.selector = selector
        self.sources: dict[DimVar, Place] = {}
        self.linear: dict[DimVar, tuple[Place, int, int]] = {}  # with factor and rest
        self.words: dict[DimVar, Reg] = {}
        # Of each branch being emitted, the symbols that became known in it.
        self.branches: list[list[DimVar]] = [[]]

    def declare(self, var: Var, kind: Type | None) -> None:
        """Note that the axes of a variable, also those of tensors in a tuple, supply the symbols
        in its type that stand alone, or with a factor and another number.
        """
        for path, axis, dim in axes_of(kind):
            linear = linear_dim(dim)
            if linear is None:
                continue
            variable, factor, rest = linear
            if (factor, rest) == (1, 0):
                self.sources.setdefault(variable, (var, path, axis))
            else:
                self.linear.setdefault(variable, ((var, path, axis), factor, rest))

    def check_sizes(self, var: Var) -> None:
        """Emit that the axes of a parameter have the sizes that symbols in its type stand for: a
        caller may know none of them.
        """
        kind = var.checked_type or var.type_annotation
        for path, axis, dim in axes_of(kind):
            place = (var, path, axis)
            if not isinstance(dim, DimExpr) or not self.known(dim):
                continue
            if dim.variable is None or self.sources.get(dim.variable) != place:
                size = self.word(dim, var.span)
                reg = self._tensor(var, path, var.span)
                self.selector.emit("check_dim", Use(reg), axis, Use(size), span=var.span)

    def push(self) -> None:
        """Enter a branch."""
        self.branches.append([])

    def pop(self) -> None:
        """Leave a branch: what was computed in it is not known behind it."""
        for variable in self.branches.pop():
            del self.words[variable]

    def _note(self, variable: DimVar, word: Reg) -> None:
        self.words[variable] = word
        self.branches[-1].append(variable)

    def known(self, dim: Dim) -> bool:
        """Tell whether the size can be computed here."""
        if isinstance(dim, AnyDim):
            return False
        places = (self.words, self.sources, self.linear)
        return all(any(v in known for known in places) for v in dim_variables(dim))

    @contextmanager
    def operands(self, args: Sequence[Reg], types: Sequence[Type]) -> Iterator[None]:
        """Let the axes of these registers supply the symbols in `types`, inside the `with`
        block.
        """
        self.push()
        pending = list(zip(args, types))
        for reg, kind in pending:
            if isinstance(kind, TupleType):
                raise InternalError("a view of a tuple")
            assert isinstance(kind, TensorType)
            for axis, dim in enumerate(kind.shape):
                linear = linear_dim(dim)
                if linear is not None and linear[0] not in self.words:
                    size = self._axis(reg, axis, None)
                    self._note(linear[0], self._solved(size, linear[1], linear[2], None))
        yield
        self.pop()

    def word(self, dim: Dim, span: Span | None) -> Reg:
        """Return an int64 word that holds the size."""
        if isinstance(dim, int):
            return self.selector.word(dim, span)
        if isinstance(dim, AnyDim):
            raise InternalError("`?` has no value")
        total: Reg | None = None
        for monomial, coefficient in dim.terms:
            product = (
                None if coefficient == 1 and monomial else self.selector.word(coefficient, span)
            )
            for atom, power in monomial:
                value = self._atom(atom, span)
                for _ in range(power):
                    product = value if product is None else self._op("multiply_i64", product, value)
            assert product is not None
            total = product if total is None else self._op("add_i64", total, product)
        assert total is not None
        return total

    def _atom(self, atom: DimVar | DimTerm, span: Span | None) -> Reg:
        if isinstance(atom, DimVar):
            return self._variable(atom, span)
        a, b = self.word(atom.a, span), self.word(atom.b, span)
        if atom.op == "broadcast":
            one = self._op("equal_i64", a, self.selector.word(1, span))
            result = Reg(WORD)
            self.selector.emit("select", Def(result), Use(one), Use(b), Use(a), span=span)
            return result
        return self._op(_TERMS[atom.op], a, b)

    def _variable(self, variable: DimVar, span: Span | None) -> Reg:
        if variable in self.words:
            return self.words[variable]
        if variable in self.sources:
            place, factor, rest = self.sources[variable], 1, 0
        elif variable in self.linear:
            place, factor, rest = self.linear[variable]
        else:
            raise error(
                "unreadable-dim",
                f"the size `{variable.name}` is needed at run time, but no tensor parameter of "
                "this function has it as an axis",
                span,
            )
        var, path, axis = place
        size = self._axis(self._tensor(var, path, span), axis, span)
        reg = self._solved(size, factor, rest, span)
        self._note(variable, reg)
        return reg

    def _solved(self, size: Reg, factor: int, rest: int, span: Span | None) -> Reg:
        """Return n where `size` is `factor * n + rest`, or the nearest that is not negative: the
        check of the size finds that it is none.
        """
        if rest:
            size = self._op("subtract_i64", size, self.selector.word(rest, span))
        if factor != 1:
            size = self._op("floor_divide_i64", size, self.selector.word(factor, span))
        if rest > 0:
            size = self._op("maximum_i64", size, self.selector.word(0, span))
        return size

    def _tensor(self, var: Var, path: tuple[int, ...], span: Span | None) -> Reg:
        """Return the tensor at the end of a path through tuples."""
        value, kind = self.selector.lookup(var), var.checked_type or var.type_annotation
        for index in path:
            assert isinstance(kind, TupleType)
            value = self.selector.item(value, kind, index, span)
            kind = kind.fields[index]
        return self.selector.whole(value, span)

    def _axis(self, reg: Reg, axis: int, span: Span | None) -> Reg:
        size = Reg(WORD)
        self.selector.emit("tensor_dim", Def(size), Use(reg), axis, span=span)
        return size

    def _op(self, name: str, a: Reg, b: Reg) -> Reg:
        result = Reg(WORD)
        self.selector.emit(name, Def(result), Use(a), Use(b), span=None)
        return result
