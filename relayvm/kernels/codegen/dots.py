"""Sums of products of neighbouring lanes as LLVM IR text: the CPU's own instructions where it has
them, else products of 32 bits.

All forms give the same integers; which operands have an instruction schedules learn from
`dot_signs` in `cpu.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from relayvm.base.dtypes import UINT16, DType
from relayvm.base.native.cpu import Cpu, dot_signs
from relayvm.kernels.codegen.emitter import Emitter
from relayvm.kernels.loops import Dot


@dataclass(frozen=True)
class DotInstruction:
    """One instruction: how many sums it makes, and of how many lanes of which type each.

    `adds` says that it adds them to another operand.
    """

    lanes: int
    group: int
    bits: int
    intrinsic: str
    adds: bool


_MIXED = DotInstruction(16, 4, 8, "x86.avx512.vpdpbusd.512", True)
_PAIRS_ADDED = DotInstruction(16, 2, 16, "x86.avx512.vpdpwssd.512", True)
_PAIRS_512 = DotInstruction(16, 2, 16, "x86.avx512.pmaddw.d.512", False)
_PAIRS_256 = DotInstruction(8, 2, 16, "x86.avx2.pmadd.wd", False)
_SIGNED = DotInstruction(4, 4, 8, "aarch64.neon.sdot.v4i32.v16i8", True)
_UNSIGNED = DotInstruction(4, 4, 8, "aarch64.neon.udot.v4i32.v16i8", True)


def emit_dot(e: Emitter, cpu: Cpu | None, dot: Dot, operands: tuple[str, str, str]) -> str:
    """Return the operand that holds the value of a `Dot`, whose own operands are given."""
    acc, *factors = operands
    dtypes = (dot.a.dtype, dot.b.dtype)
    chosen = _instruction(cpu, dot.a.lanes // dot.lanes, dtypes)
    if chosen is _MIXED and dtypes[0].kind == "int":
        # The unsigned factor is the first one of the instruction.
        factors, dtypes = factors[::-1], dtypes[::-1]
    bits = 32 if chosen is None or dot.lanes % chosen.lanes else chosen.bits
    a, b = (_extended(e, x, d, dot.a.lanes, bits) for x, d in zip(factors, dtypes))
    if chosen is None or dot.lanes % chosen.lanes:
        products = e.value(f"mul <{dot.a.lanes} x i32> {a}, {b}")
        return _summed(e, dot, acc, products)
    parts = [
        _part(e, chosen, dot, (acc, a, b), first) for first in range(0, dot.lanes, chosen.lanes)
    ]
    sums = _joined(e, parts, chosen.lanes)
    return sums if chosen.adds else e.value(f"add <{dot.lanes} x i32> {acc}, {sums}")


def _instruction(cpu: Cpu | None, group: int, dtypes: tuple[DType, DType]) -> DotInstruction | None:
    if cpu is None:
        return None
    same = dtypes[0].kind == dtypes[1].kind
    if group == 4 and {d.bits for d in dtypes} == {8}:
        signs = dot_signs(cpu)
        if signs == "mixed" and not same:
            return _MIXED
        if signs == "same" and same:
            return _SIGNED if dtypes[0].kind == "int" else _UNSIGNED
    if group == 2 and UINT16 not in dtypes and cpu.vector_bits:
        if "avx512vnni" in cpu.features:
            return _PAIRS_ADDED
        return _PAIRS_512 if cpu.vector_bits == 512 else _PAIRS_256
    return None


def _extended(e: Emitter, value: str, dtype: DType, lanes: int, bits: int) -> str:
    if dtype.bits == bits:
        return value
    instruction = "sext" if dtype.is_signed else "zext"
    return e.value(f"{instruction} <{lanes} x i{dtype.bits}> {value} to <{lanes} x i{bits}>")


def _part(
    e: Emitter, chosen: DotInstruction, dot: Dot, operands: tuple[str, str, str], first: int
) -> str:
    """Return the sums from `first` on that one instruction makes."""
    lanes, wide = chosen.lanes, chosen.lanes * chosen.group
    acc, a, b = operands
    if lanes != dot.lanes:
        at = range(first * chosen.group, first * chosen.group + wide)
        a, b = (e.shuffle(x, x, f"i{chosen.bits}", dot.a.lanes, at) for x in (a, b))
        if chosen.adds:
            acc = e.shuffle(acc, acc, "i32", dot.lanes, range(first, first + lanes))
    sums, factor = f"<{lanes} x i32>", f"<{wide} x i{chosen.bits}>"
    given = f"{sums} {acc}, " if chosen.adds else ""
    return e.value(f"call {sums} @llvm.{chosen.intrinsic}({given}{factor} {a}, {factor} {b})")


def _joined(e: Emitter, parts: list[str], lanes: int) -> str:
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2])
        parts = [e.shuffle(a, b, "i32", lanes, range(2 * lanes)) for a, b in pairs]
        lanes *= 2
    return parts[0]


def _summed(e: Emitter, dot: Dot, acc: str, products: str) -> str:
    """Return `acc` plus the products of each group."""
    group, lanes, total = dot.a.lanes // dot.lanes, dot.lanes, acc
    for number in range(group):
        at = range(number, dot.a.lanes, group)
        if lanes == 1:
            part = e.value(f"extractelement <{dot.a.lanes} x i32> {products}, i32 {number}")
            total = e.value(f"add i32 {total}, {part}")
        else:
            part = e.shuffle(products, products, "i32", dot.a.lanes, at)
            total = e.value(f"add <{lanes} x i32> {total}, {part}")
    return total
