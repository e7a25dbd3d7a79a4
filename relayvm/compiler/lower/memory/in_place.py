"""Kernels that write over an input: which inputs may be given away with a call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from relayvm.base.abi import KernelSignature
from relayvm.base.trampoline import Recursive, trampoline
from relayvm.compiler.lower.linear import (
    OBJECT,
    Block,
    Choice,
    Def,
    LinearFunction,
    Operand,
    Reg,
    Step,
    Take,
    Use,
    roles,
)
from relayvm.compiler.lower.liveness import Live, walk_blocks

MAX_GIVEN = 32  # inputs that an instruction can name as given away: a bit each


def donate(step: Step, live: Live, signatures: Sequence[KernelSignature]) -> Step:
    """Let a kernel write over inputs that die with it; other steps stay the same."""
    if step.name != "kernel":
        return step
    number, inputs, outputs = step.operands
    assert isinstance(number, int) and isinstance(inputs, tuple)
    dying = {i: reg for i, reg in _last_inputs(step, live, signatures) if not reg.borrowed}
    if not dying:
        return step
    mask = sum(1 << i for i in dying)
    given: tuple[Operand, ...] = tuple(
        Take(dying[i]) if i in dying else role for i, role in enumerate(inputs)
    )
    return replace(step, name="kernel_reuse", operands=(number, mask, given, outputs))


def overwritten_params(function: LinearFunction, signatures: Sequence[KernelSignature]) -> set[Reg]:
    """Return the parameters that a kernel reads last and could write over, were they the
    function's own.
    """
    finder = _Finder(signatures)
    trampoline(finder.block(function.body, Live()))
    return finder.found


def _last_inputs(
    step: Step, live: Live, signatures: Sequence[KernelSignature]
) -> list[tuple[int, Reg]]:
    """Return the inputs of a kernel that an output may lie in and that nothing reads later."""
    number, inputs, _ = step.operands
    assert isinstance(number, int) and isinstance(inputs, tuple)
    found: dict[int, Reg] = {}
    for _output, index in signatures[number].in_place:
        role = inputs[index]
        reg = role.reg if isinstance(role, Use) else None
        if reg is None or reg.kind != OBJECT or index >= MAX_GIVEN or reg in live:
            continue
        others = (r.reg for k, r in enumerate(inputs) if k != index and isinstance(r, Use))
        if not any(other is reg or other.owner is reg for other in others):
            found[index] = reg
    return list(found.items())


class _Finder:
    """Walks a function backwards before it is known how parameters are held."""

    def __init__(self, signatures: Sequence[KernelSignature]) -> None:
        self.signatures = signatures
        self.found: set[Reg] = set()

    def block(self, block: Block, live: Live) -> Recursive[None]:
        for item in reversed(block.items):
            if isinstance(item, Choice):
                yield walk_blocks(item.blocks, live, set(item.joins), (item.on,), self.block)
                continue
            if item.name == "kernel":
                last = _last_inputs(item, live, self.signatures)
                self.found.update(reg for _, reg in last if reg.is_param)
            live.remove(r.reg for r in roles(item.operands) if isinstance(r, Def))
            live.add(r.reg for r in roles(item.operands) if not isinstance(r, Def))
