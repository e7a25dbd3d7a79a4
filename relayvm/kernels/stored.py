"""Scheduled nests in the cache: what names one, and what is kept of it.

A key is a hash of all that the nest and the signature follow from, so that a hit needs neither a
schedule nor a proof.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from relayvm.base.abi import DimCheck, DimSource, Kernel, KernelSignature
from relayvm.base.dims import Dim, DimVar
from relayvm.base.native.plain_dims import Plain, decode_dim, encode_dim
from relayvm.kernels import compute as c
from relayvm.kernels.lower import Computation, dim_names, operands_of
from relayvm.kernels.schedules.plan import operands, topological
from relayvm.kernels.schedules.program import program_text


def computation_key(
    computation: Computation, checks: Sequence[DimCheck], settings: Sequence[object]
) -> str:
    """Return the hash of a computation with the checks before it, and of what else it depends on.

    Names of tensors do not count. Names of dim variables do: nests use them.
    """
    numbers = {v: k for k, v in enumerate(computation.dim_vars)}
    writer = _Writer(numbers, dim_names(computation.dim_vars))
    for tensor in topological((*computation.inputs, *computation.outputs)):
        writer.tensor(tensor)
    head = [
        *settings,
        list(dim_names(computation.dim_vars).values()),
        sorted(computation.strided),
        [writer.tensors[t] for t in computation.inputs],
        [writer.tensors[t] for t in computation.outputs],
        [(encode_dim(k.a, numbers), encode_dim(k.b, numbers), k.what) for k in checks],
    ]
    return hashlib.sha256(repr((head, writer.rows)).encode()).hexdigest()


class _Writer:
    """Writes tensors and expressions as rows that name others by number, shared ones once."""

    def __init__(self, numbers: dict[DimVar, int], names: dict[DimVar, str]) -> None:
        self.numbers, self.names = numbers, names
        self.rows: list[tuple[object, ...]] = []
        self.tensors: dict[c.Tensor, int] = {}
        self.known: dict[int, int] = {}

    def tensor(self, tensor: c.Tensor) -> None:
        """Add a tensor whose operands are there."""
        shape = self.shape(tensor.shape)
        body: list[object] = []
        if isinstance(tensor.op, c.Compute):
            body = [self.expr(e) for e in (*tensor.op.axes, tensor.op.body)]
        elif isinstance(tensor.op, c.ProgramOutput):
            whole = tensor.op.source
            body = [self.program(whole), whole.outputs.index(tensor)]
        self.tensors[tensor] = self._add((type(tensor.op).__name__, tensor.dtype, shape, body))

    def program(self, program: c.Program) -> int:
        """Return the number of a program: its loops as text, and what it reads."""
        if id(program) not in self.known:
            text = program_text(program, self.names)
            work = encode_dim(program.work, self.numbers)
            self.known[id(program)] = self._add(
                (text, work, [self.tensors[t] for t in program.inputs])
            )
        return self.known[id(program)]

    def shape(self, dims: Sequence[Dim]) -> list[Plain]:
        """Return dims in plain form."""
        return [encode_dim(d, self.numbers) for d in dims]

    def expr(self, root: c.ScalarExpr) -> int:
        """Return the number of an expression."""
        stack = [root]
        while stack:
            expr = stack[-1]
            parts = [*operands(expr)]
            if isinstance(expr, (c.Reduce, c.ArgReduce)):
                parts += expr.axes
            missing = [e for e in parts if id(e) not in self.known]
            if id(expr) not in self.known and not missing:
                inner = [self.known[id(e)] for e in parts]
                self.known[id(expr)] = self._add((*self._own(expr), inner))
            if missing:
                stack += missing
            else:
                stack.pop()
        return self.known[id(root)]

    def _add(self, row: tuple[object, ...]) -> int:
        self.rows.append(row)
        return len(self.rows) - 1

    def _own(self, expr: c.ScalarExpr) -> tuple[object, ...]:
        kind = (type(expr).__name__, expr.dtype)
        match expr:
            case c.Const(_, value):
                return (*kind, value)
            case c.IndexVar(_, _, extent) | c.DimValue(_, extent):
                return (*kind, encode_dim(extent, self.numbers))
            case c.TensorLoad(_, tensor, _):
                return (*kind, self.tensors[tensor])
            case c.Scalar(_, name, _):
                return (*kind, name)
            case c.IndexOf(_, _, extent, mode, told):
                said = () if told is None else (told.reason,)
                return (*kind, encode_dim(extent, self.numbers), mode, *said)
            case c.Reduce():
                return (*kind, expr.kind)
            case c.ArgReduce():
                return (*kind, expr.kind, expr.select_last_index)
            case _:
                return kind


def kernel_to_bytes(kernel: Kernel) -> bytes:
    """Return of a kernel what cannot be read from its request."""
    signature = kernel.signature
    numbers = {v: k for k, v in enumerate(signature.dim_vars)}
    kept = {
        "nest": kernel.nest.removeprefix(_head(kernel.name)),
        "in_place": signature.in_place,
        "scratch_bytes": encode_dim(signature.scratch_bytes, numbers),
        "private_bytes": encode_dim(signature.private_bytes, numbers),
        "phases": [encode_dim(p, numbers) for p in signature.phases],
        "work": encode_dim(signature.work, numbers),
        "chains": [encode_dim(c, numbers) for c in signature.chains],
    }
    return json.dumps(kept).encode()


def kernel_from_bytes(
    data: bytes,
    computation: Computation,
    sources: tuple[DimSource, ...],
    checks: tuple[DimCheck, ...],
) -> Kernel:
    """Return the kernel of a computation with the same key as the one that was kept."""
    kept = json.loads(data)
    variables = computation.dim_vars
    signature = KernelSignature(
        operands=operands_of(computation),
        dim_vars=variables,
        sources=sources,
        checks=checks,
        in_place=tuple((a, b) for a, b in kept["in_place"]),
        scratch_bytes=decode_dim(kept["scratch_bytes"], variables),
        phases=tuple(decode_dim(p, variables) for p in kept["phases"]),
        work=decode_dim(kept["work"], variables),
        private_bytes=decode_dim(kept["private_bytes"], variables),
        chains=tuple(decode_dim(c, variables) for c in kept["chains"]),
    )
    return Kernel(computation.name, _head(computation.name) + kept["nest"], signature)


def _head(name: str) -> str:
    return f"nest @{name} "
