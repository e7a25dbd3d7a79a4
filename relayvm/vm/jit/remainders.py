"""Inline lowerings of remainders of floats, and of quotients that are rounded down.

The usual case is here: finite numbers whose quotient is not too large to be exact up to its last
integer. All others are left to the C body, which divides digit by digit.
"""

from __future__ import annotations

from relayvm.base.dtypes import FLOATS, DType
from relayvm.vm.isa import word_name
from relayvm.vm.jit.objects import ObjectLowering, finish, or_by_body
from relayvm.vm.jit.words import give, kind_of, take
from relayvm.vm.jit.writer import Writer
from relayvm.vm.program import Instr

_NAMES = ("mod", "floor_mod", "floor_divide")
# Below these, what the quotient lacks to an integer is more than its rounding (floats, divided as
# doubles), or its rounding is less than one (doubles).
_MOST = {"float": 1 << 28, "double": 1 << 52}
_INFINITY = "0x7FF0000000000000"


def _unary(w: Writer, name: str, kind: str, value: str) -> str:
    bits = 64 if kind == "double" else 32
    return w.value(f"call {kind} @llvm.{name}.f{bits}({kind} {value})")


def _copysign(w: Writer, kind: str, value: str, sign: str) -> str:
    bits = 64 if kind == "double" else 32
    return w.value(f"call {kind} @llvm.copysign.f{bits}({kind} {value}, {kind} {sign})")


def _rest(w: Writer, kind: str, a: str, b: str, quotient: str) -> str:
    """Return the rest of two numbers, of the sign of the first, which is exact."""
    whole = _unary(w, "trunc", "double", quotient)
    if kind == "float":
        rest = w.value(f"fsub double {a}, {w.value(f'fmul double {whole}, {b}')}")
        # Rounded before it has its sign: LLVM would round to float16 from a double, by a call.
        rounded, sign = (w.value(f"fptrunc double {value} to float") for value in (rest, a))
        return _copysign(w, "float", rounded, sign)
    less = w.value(f"fneg double {whole}")
    rest = w.value(f"call double @llvm.fma.f64(double {less}, double {b}, double {a})")
    # A quotient that was rounded up to an integer is one too much.
    product = w.value(f"xor i1 {_is_negative(w, rest)}, {_is_negative(w, a)}")
    beyond = w.value(f"and i1 {product}, {w.value(f'fcmp one double {rest}, 0.0')}")
    step = _copysign(w, "double", b, a)
    back = w.value(f"fadd double {rest}, {step}")
    return _copysign(w, kind, w.value(f"select i1 {beyond}, double {back}, double {rest}"), a)


def _is_negative(w: Writer, value: str, kind: str = "double") -> str:
    return w.value(f"fcmp olt {kind} {value}, 0.0")


def _floored(w: Writer, kind: str, a: str, b: str, rest: str) -> tuple[str, str]:
    """Return the rest of the sign of the second number, and the quotient that belongs to it."""
    quotient = w.value(f"fdiv {kind} {w.value(f'fsub {kind} {a}, {rest}')}, {b}")
    some = w.value(f"fcmp une {kind} {rest}, 0.0")
    signs = w.value(f"xor i1 {_is_negative(w, b, kind)}, {_is_negative(w, rest, kind)}")
    differ = w.value(f"and i1 {some}, {signs}")
    more = w.value(f"fadd {kind} {rest}, {b}")
    nothing = _copysign(w, kind, "0.0", b)
    kept = w.value(f"select i1 {some}, {kind} {rest}, {kind} {nothing}")
    less = w.value(f"fsub {kind} {quotient}, 1.0")
    quotient = w.value(f"select i1 {differ}, {kind} {less}, {kind} {quotient}")
    floor = _unary(w, "floor", kind, quotient)
    above = w.value(f"fcmp ogt {kind} {w.value(f'fsub {kind} {quotient}, {floor}')}, 0.5")
    up = w.value(f"fadd {kind} {floor}, 1.0")
    near = w.value(f"select i1 {above}, {kind} {up}, {kind} {floor}")
    zero = _copysign(w, kind, "0.0", w.value(f"fdiv {kind} {a}, {b}"))
    is_zero = w.value(f"fcmp oeq {kind} {quotient}, 0.0")
    return (
        w.value(f"select i1 {differ}, {kind} {more}, {kind} {kept}"),
        w.value(f"select i1 {is_zero}, {kind} {zero}, {kind} {near}"),
    )


def _lowering(dtype: DType, name: str) -> ObjectLowering:
    kind = kind_of(dtype)

    def lower(w: Writer, instr: Instr) -> None:
        if not w.host.has_half:  # then the CPU rounds to integers by calls only
            w.body(instr)
            return
        dst, *sources = (str(operand) for operand in instr.operands)
        a, b = (take(w, dtype, w.load(source)) for source in sources)
        wide = [v if kind == "double" else w.value(f"fpext float {v} to double") for v in (a, b)]
        quotient = w.value(f"fdiv double {wide[0]}, {wide[1]}")
        size, divisor = (_unary(w, "fabs", "double", v) for v in (quotient, wide[1]))
        small = w.value(f"fcmp olt double {size}, {float(_MOST[kind])!r}")
        finite = w.value(f"fcmp olt double {divisor}, {_INFINITY}")
        done = or_by_body(w, instr, w.value(f"and i1 {small}, {finite}"))
        result = _rest(w, kind, wide[0], wide[1], quotient)
        if name != "mod":
            rest, whole = _floored(w, kind, a, b, result)
            result = rest if name == "floor_mod" else whole
        w.store(dst, give(w, dtype, result))
        finish(w, done)

    return lower


def declarations() -> str:
    """Return the intrinsics that lowerings call."""
    lines = ["declare double @llvm.trunc.f64(double)"]
    lines.append("declare double @llvm.fma.f64(double, double, double)")
    for bits, kind in ((32, "float"), (64, "double")):
        lines.append(f"declare {kind} @llvm.floor.f{bits}({kind})")
        lines.append(f"declare {kind} @llvm.copysign.f{bits}({kind}, {kind})")
    return "\n".join(lines) + "\n"


REMAINDERS: dict[str, ObjectLowering] = {
    word_name(name, dtype): _lowering(dtype, name) for name in _NAMES for dtype in FLOATS
}
