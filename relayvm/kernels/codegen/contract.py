"""Whether a nest keeps the contract that its signature states to the machine.

The machine allocates and checks by the signature alone, so code whose nest differs from it must
never run. Needs no LLVM.
"""

from __future__ import annotations

from relayvm.base.abi import Access, Direction, KernelSignature, Operand
from relayvm.base.diagnostics import error, quantity
from relayvm.base.dims import Dim, DimExpr, DimTerm
from relayvm.kernels.index.bounds import nest_broadcasts
from relayvm.kernels.loops import Buffer, Expr, Nest
from relayvm.kernels.lower import expr_dim, memory_layout
from relayvm.kernels.printer import print_expr


def check_contract(nest: Nest, signature: KernelSignature) -> None:
    """Raise RelayError `bad-executable` where the signature is not that of the nest."""
    reason = _difference(nest, signature)
    if reason:
        raise error(
            "bad-executable", f"kernel `{nest.name}` is not what its signature says: {reason}"
        )


def _difference(nest: Nest, signature: KernelSignature) -> str:
    if len(nest.dims) != len(signature.dim_vars):
        return f"{quantity(len(nest.dims), 'dim')}, not {len(signature.dim_vars)}"
    if len(nest.operands) != len(signature.operands):
        return f"{quantity(len(nest.operands), 'operand')}, not {len(signature.operands)}"
    variables = dict(zip(nest.dims, signature.dim_vars))

    def dims(exprs: tuple[Expr, ...]) -> tuple[Dim, ...] | None:
        try:
            return tuple(expr_dim(e, variables) for e in exprs)
        except (AssertionError, KeyError, ValueError):
            return None

    for buffer, operand in zip(nest.operands, signature.operands):
        if not _operand_agrees(buffer, operand) or dims(buffer.shape) != operand.dims:
            return f"operand `{buffer.name}`"
    if dims(tuple(phase.extent for phase in nest.phases)) != signature.phases:
        return "extents of phases"
    chains = dims(tuple(phase.chain for phase in nest.phases))
    if chains != (signature.chains or (1,) * len(signature.phases)):
        return "chains of phases"
    if dims((memory_layout(nest.scratch)[1],)) != (signature.scratch_bytes,):
        return "scratch memory"
    if dims((memory_layout(nest.private)[1],)) != (signature.private_bytes,):
        return "private memory"
    known = _sizes_that_fit(signature)
    for size in nest_broadcasts(nest):
        pair = dims((size.a, size.b))
        if pair is None or not any(_sizes_joined(*pair) <= sizes for sizes in known):
            return f"nothing checks that {print_expr(size)} is the size of a broadcast"
    shared = [pair for pair in signature.in_place if not _may_share(signature, pair)]
    return f"operands {shared[0]} share memory" if shared else ""


def _sizes_that_fit(signature: KernelSignature) -> list[frozenset[Dim]]:
    """Return sets of sizes of which the machine knows that they broadcast together, or traps."""
    stack = [d for o in signature.operands for d in o.dims]
    stack += [
        signature.scratch_bytes,
        signature.private_bytes,
        *signature.phases,
        *signature.chains,
    ]
    stack += [d for check in signature.checks for d in (check.a, check.b)]
    found: list[frozenset[Dim]] = []
    while stack:
        dim = stack.pop()
        if not isinstance(dim, DimExpr):
            continue
        for term in (a for monomial, _ in dim.terms for a, _ in monomial):
            if isinstance(term, DimTerm):
                stack += [term.a, term.b]
                if term.op == "broadcast":
                    found.append(_sizes_joined(term.a, term.b))
    return found


def _sizes_joined(*dims: Dim) -> frozenset[Dim]:
    """Return the sizes that a broadcast of `dims` joins, broadcasts among them taken apart.

    All of them but those that are 1 are equal, in whatever order they are joined.
    """
    found: set[Dim] = set()
    stack = list(dims)
    while stack:
        dim = stack.pop()
        match dim:
            case DimExpr(((((DimTerm("broadcast", a, b), 1),), 1),)):
                stack += [a, b]
            case _:
                found.add(dim)
    return frozenset(found)


def _operand_agrees(buffer: Buffer, operand: Operand) -> bool:
    direction = Direction.INPUT if buffer.role == "input" else Direction.OUTPUT
    found = (direction, buffer.dtype, buffer.access)
    scalar_fits = operand.access is not Access.SCALAR or operand.rank == 0
    return found == (operand.direction, operand.dtype, operand.access) and scalar_fits


def _may_share(signature: KernelSignature, pair: tuple[int, int]) -> bool:
    if not all(0 <= number < len(signature.operands) for number in pair):
        return False
    output, source = (signature.operands[number] for number in pair)
    same = (output.dtype, output.dims, output.access) == (source.dtype, source.dims, source.access)
    roles = (output.direction, source.direction) == (Direction.OUTPUT, Direction.INPUT)
    return same and roles and output.access is Access.DENSE
