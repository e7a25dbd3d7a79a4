"""Whether a nest keeps the contract that its signature states to the machine.

The machine allocates and checks by the signature alone, so code whose nest differs from it must
never run. Needs no LLVM.
"""

from __future__ import annotations

from dataclasses import replace

from relayvm.base.abi import Access, Direction, KernelSignature, Operand
from relayvm.base.diagnostics import error
from relayvm.base.dims import Dim, DimVar, dim_substitute, symbol
from relayvm.kernels.loops import Buffer, Expr, Nest
from relayvm.kernels.lower import expr_dim, scratch_layout


def check_contract(nest: Nest, signature: KernelSignature) -> None:
    """Raise RelayError `bad-executable` where the signature is not that of the nest."""
    reason = _difference(nest, signature)
    if reason:
        raise error(
            "bad-executable", f"kernel `{nest.name}` is not what its signature says: {reason}"
        )


def _difference(nest: Nest, signature: KernelSignature) -> str:
    if len(nest.dims) != len(signature.dim_vars):
        return f"{len(nest.dims)} dims, not {len(signature.dim_vars)}"
    if len(nest.operands) != len(signature.operands):
        return f"{len(nest.operands)} operands, not {len(signature.operands)}"
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
    if dims((scratch_layout(nest)[1],)) != (signature.scratch_bytes,):
        return "scratch memory"
    shared = [pair for pair in signature.in_place if not _may_share(signature, pair)]
    return f"operands {shared[0]} share memory" if shared else ""


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


def signature_text(signature: KernelSignature) -> str:
    """Return a signature as text that depends on no name of a dim variable."""
    names = {v: symbol(DimVar(f"d{k}")) for k, v in enumerate(signature.dim_vars)}

    def dims(values: tuple[Dim, ...]) -> tuple[Dim, ...]:
        return tuple(dim_substitute(d, names) for d in values)

    operands = tuple(replace(o, dims=dims(o.dims)) for o in signature.operands)
    checks = tuple((*dims((c.a, c.b)), c.what) for c in signature.checks)
    sizes = dims((signature.scratch_bytes, signature.work, *signature.phases))
    return repr((operands, signature.sources, checks, signature.in_place, sizes))
