"""Reads the block of a kernel: its signature, with dims as expressions, and its nest."""

from __future__ import annotations

from collections.abc import Callable

from relayvm.base.abi import (
    MAX_RANK,
    Access,
    DimCheck,
    DimSource,
    Direction,
    Kernel,
    KernelSignature,
    Operand,
)
from relayvm.base.dims import (
    Dim,
    DimVar,
    dim_add,
    dim_floordiv,
    dim_mod,
    dim_mul,
    symbol,
    written_term,
)
from relayvm.base.dtypes import BY_NAME
from relayvm.vm.assembly.tokens import WORD_LIMIT, TextReader

MAX_DIM_DEPTH = 32
MAX_DIM = 1 << 62
MAX_DIM_TERMS = 256

FUNCTIONS = ("min", "max", "broadcast")
PRODUCTS: dict[str, Callable[[Dim, Dim], Dim]] = {
    "*": dim_mul,
    "//": dim_floordiv,
    "%": dim_mod,
}


class KernelReader:
    """Collects what stands in one kernel."""

    def __init__(self, reader: TextReader) -> None:
        self.reader = reader
        self.variables: list[DimVar] = []
        self.sources: list[DimSource] = []
        self.operands: list[Operand] = []
        self.checks: list[DimCheck] = []
        self.in_place: list[tuple[int, int]] = []
        self.scratch: Dim = 0
        self.private: Dim = 0
        self.phases: list[Dim] = []
        self.chains: list[Dim] = []
        self.work: Dim = 1
        self.nest: list[str] = []
        self.depth = 0

    def kernel(self, name: str) -> Kernel:
        """Return the kernel that the lines read so far describe."""
        signature = KernelSignature(
            tuple(self.operands),
            tuple(self.variables),
            tuple(self.sources),
            tuple(self.checks),
            tuple(self.in_place),
            self.scratch,
            tuple(self.phases),
            self.work,
            self.private,
            tuple(self.chains) if any(chain != 1 for chain in self.chains) else (),
        )
        return Kernel(name, "\n".join(self.nest), signature)

    def line(self, line: str) -> None:
        """Read one line of the block."""
        reader = self.reader
        if line.lstrip().startswith("|"):
            self.nest.append(reader.bar_text(line))
            return
        statements = {
            "var": self.variable,
            "input": lambda: self.operand(Direction.INPUT),
            "output": lambda: self.operand(Direction.OUTPUT),
            "check": self.check,
            "in_place": self.pair,
            "scratch": self.read_scratch,
            "private": self.read_private,
            "phase": self.phase,
            "work": self.read_work,
        }
        reader.choose(statements)()
        reader.end()

    def variable(self) -> None:
        reader = self.reader
        reader.numbered("d", self.variables)
        name = reader.string()
        reader.expect("operand")
        operand = reader.number_below(WORD_LIMIT)
        reader.expect("axis")
        self.variables.append(DimVar(name))
        self.sources.append(DimSource(operand, reader.number_below(MAX_RANK, -1)))

    def operand(self, direction: Direction) -> None:
        reader = self.reader
        before = self.operands[-1].direction if self.operands else Direction.INPUT
        if direction < before:
            reader.refuse("inputs come before outputs")
        names = {access.name.lower(): access for access in Access}
        access = names[reader.name_of(names)]
        dtype = BY_NAME[reader.name_of(BY_NAME)]
        dims = tuple(reader.list_of(self.dim))
        if len(dims) > MAX_RANK:
            reader.refuse(f"an operand has at most {MAX_RANK} axes")
        self.operands.append(Operand(direction, dtype, dims, access))

    def check(self) -> None:
        a = self.dim()
        self.reader.expect("==")
        b = self.dim()
        self.checks.append(DimCheck(a, b, self.reader.string()))

    def phase(self) -> None:
        self.phases.append(self.dim())
        self.chains.append(self.dim() if self.reader.accept("chain") else 1)

    def pair(self) -> None:
        output = self.reader.number_below(WORD_LIMIT)
        self.in_place.append((output, self.reader.number_below(WORD_LIMIT)))

    def read_scratch(self) -> None:
        self.scratch = self.dim()

    def read_private(self) -> None:
        self.private = self.dim()

    def read_work(self) -> None:
        self.work = self.dim()

    # --- dims ----------------------------------------------------------------------------------

    def dim(self) -> Dim:
        """Return a sum; its normal form is bounded, since products of sums grow fast."""
        total = self.product()
        while self.reader.accept("+"):
            total = self.bounded(dim_add(total, self.product()))
        return total

    def product(self) -> Dim:
        result = self.atom()
        while True:
            token = self.reader.tokens[self.reader.at]
            if token.kind != "mark" or token.text not in PRODUCTS:
                return result
            self.reader.at += 1
            other = self.atom()
            if token.text != "*" and other == 0:
                self.reader.refuse("a dim is divided by 0", token)
            result = self.bounded(PRODUCTS[token.text](result, other))

    def atom(self) -> Dim:
        reader = self.reader
        token = reader.tokens[reader.at]
        if token.kind == "number":
            return reader.number_below(MAX_DIM, -MAX_DIM)
        if reader.accept("("):
            result = self.nested()
            reader.expect(")")
            return result
        if token.text in FUNCTIONS:
            reader.at += 1
            reader.expect("(")
            a = self.nested()
            reader.expect(",")
            b = self.nested()
            reader.expect(")")
            return self.bounded(written_term(token.text, a, b))
        number = reader.index("d")
        if number >= len(self.variables):
            reader.refuse(f"there is no dim variable `{token.text}`", token)
        return symbol(self.variables[number])

    def nested(self) -> Dim:
        self.depth += 1
        if self.depth > MAX_DIM_DEPTH:
            self.reader.refuse(f"a dim is nested more than {MAX_DIM_DEPTH} times")
        result = self.dim()
        self.depth -= 1
        return result

    def bounded(self, dim: Dim) -> Dim:
        if isinstance(dim, int):
            small = -MAX_DIM < dim < MAX_DIM
        else:
            terms = getattr(dim, "terms", ())
            small = len(terms) <= MAX_DIM_TERMS and all(
                -MAX_DIM < c < MAX_DIM and sum(p for _, p in m) <= MAX_DIM_DEPTH for m, c in terms
            )
        if not small:
            self.reader.refuse("a dim is too large")
        return dim
