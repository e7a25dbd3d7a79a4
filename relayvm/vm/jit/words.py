"""Inline lowerings of the instructions on words: arithmetic, comparisons and casts of all dtypes,
as `scalar.h` defines them; remainders of floats are in `remainders`.
"""

from __future__ import annotations

from collections.abc import Callable

from relayvm.base.dtypes import BFLOAT16, COMPUTED, FLOAT16, NUMERIC, DType
from relayvm.vm.isa import COMPARISONS, LOGICAL, cast_name, word_name
from relayvm.vm.jit.writer import Writer

WordLowering = Callable[..., str]

_WRAPPING = {"add": "add", "subtract": "sub", "multiply": "mul"}
_FLOATING = {"add": "fadd", "subtract": "fsub", "multiply": "fmul", "divide": "fdiv"}
_BITWISE = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor"}
_ORDERED = {
    "equal": "oeq",
    "not_equal": "une",
    "less": "olt",
    "less_equal": "ole",
    "greater": "ogt",
    "greater_equal": "oge",
}
_CANONICAL_NAN = {FLOAT16: 0x7E00, BFLOAT16: 0x7FC0}
_BEYOND_FLOAT = (1 << 29) - 1  # bits of a double


def kind_of(dtype: DType) -> str:
    """Return the LLVM type in which a dtype is computed."""
    if dtype.is_bool:
        return "i1"
    if dtype.is_float:
        return "double" if dtype.bits == 64 else "float"
    return f"i{dtype.bits}"


def take(w: Writer, dtype: DType, word: str) -> str:
    """Return the value that a word is."""
    if dtype.is_bool:
        return w.value(f"icmp ne i64 {word}, 0")
    bits = word if dtype.bits == 64 else w.value(f"trunc i64 {word} to i{dtype.bits}")
    if not dtype.is_float:
        return bits
    if dtype is BFLOAT16:
        high = w.value(f"shl i32 {w.value(f'zext i16 {bits} to i32')}, 16")
        return w.value(f"bitcast i32 {high} to float")
    if dtype.bits == 16:
        half = w.value(f"bitcast i16 {bits} to half")
        return w.value(f"fpext half {half} to float")
    return w.value(f"bitcast i{dtype.bits} {bits} to {kind_of(dtype)}")


def give(w: Writer, dtype: DType, value: str) -> str:
    """Return the word of a value."""
    if dtype.is_bool:
        return w.value(f"zext i1 {value} to i64")
    if dtype.is_float:
        if dtype.bits == 16:
            value = _narrow_bits(w, dtype, value)
        else:
            value = w.value(f"bitcast {kind_of(dtype)} {value} to i{dtype.bits}")
    if dtype.bits == 64:
        return value
    return w.value(f"{'sext' if dtype.kind == 'int' else 'zext'} i{dtype.bits} {value} to i64")


def _narrow_bits(w: Writer, dtype: DType, value: str) -> str:
    """Round to float16 or bfloat16; all NaNs are one, with the sign of the value."""
    whole = w.value(f"bitcast float {value} to i32")
    above = w.value(f"lshr i32 {whole}, 16")
    high = w.value(f"trunc i32 {above} to i16")
    if dtype is BFLOAT16:
        up = w.value(f"add i32 {w.value(f'and i32 {above}, 1')}, 32767")
        near = w.value(f"lshr i32 {w.value(f'add i32 {whole}, {up}')}, 16")
        bits = w.value(f"trunc i32 {near} to i16")
    else:
        half = w.value(f"fptrunc float {value} to half")
        bits = w.value(f"bitcast half {half} to i16")
    sign = w.value(f"and i16 {high}, -32768")
    nan = w.value(f"or i16 {sign}, {_CANONICAL_NAN[dtype]}")
    is_nan = w.value(f"fcmp uno float {value}, 0.0")
    return w.value(f"select i1 {is_nan}, i16 {nan}, i16 {bits}")


def _binary(dtype: DType, compute: Callable[[Writer, str, str], str]) -> WordLowering:
    def lower(w: Writer, a: str, b: str) -> str:
        return give(w, dtype, compute(w, take(w, dtype, a), take(w, dtype, b)))

    return lower


def _operation(kind: str, name: str) -> Callable[[Writer, str, str], str]:
    return lambda w, a, b: w.value(f"{name} {kind} {a}, {b}")


def _extreme(kind: str, condition: str) -> Callable[[Writer, str, str], str]:
    def compute(w: Writer, a: str, b: str) -> str:
        first = w.value(f"icmp {condition} {kind} {a}, {b}")
        return w.value(f"select i1 {first}, {kind} {a}, {kind} {b}")

    return compute


def _float_extreme(kind: str, condition: str) -> Callable[[Writer, str, str], str]:
    def compute(w: Writer, a: str, b: str) -> str:
        ordered = w.value(f"fcmp {condition} {kind} {a}, {b}")
        nan = w.value(f"fcmp uno {kind} {a}, {a}")
        first = w.value(f"or i1 {ordered}, {nan}")
        return w.value(f"select i1 {first}, {kind} {a}, {kind} {b}")

    return compute


# --- division -----------------------------------------------------------------------------------


def _quotient_and_rest(w: Writer, dtype: DType, a: str, b: str) -> tuple[str, str]:
    """Return a / b toward 0 and its remainder; both 0 for b = 0, and -1 wraps."""
    kind = kind_of(dtype)
    zero = w.value(f"icmp eq {kind} {b}, 0")
    if dtype.kind == "uint":
        safe = w.value(f"select i1 {zero}, {kind} 1, {kind} {b}")
        quotient = w.value(f"udiv {kind} {a}, {safe}")
        rest = w.value(f"urem {kind} {a}, {safe}")
        return w.value(f"select i1 {zero}, {kind} 0, {kind} {quotient}"), rest
    minus = w.value(f"icmp eq {kind} {b}, -1")
    either = w.value(f"or i1 {zero}, {minus}")
    safe = w.value(f"select i1 {either}, {kind} 1, {kind} {b}")
    quotient = w.value(f"sdiv {kind} {a}, {safe}")
    rest = w.value(f"srem {kind} {a}, {safe}")
    negated = w.value(f"sub {kind} 0, {a}")
    quotient = w.value(f"select i1 {minus}, {kind} {negated}, {kind} {quotient}")
    return w.value(f"select i1 {zero}, {kind} 0, {kind} {quotient}"), rest


def _division(dtype: DType, name: str) -> Callable[[Writer, str, str], str]:
    kind = kind_of(dtype)

    def compute(w: Writer, a: str, b: str) -> str:
        quotient, rest = _quotient_and_rest(w, dtype, a, b)
        if dtype.kind == "uint" or not name.startswith("floor"):
            return quotient if name.endswith("divide") else rest
        some = w.value(f"icmp ne {kind} {rest}, 0")
        signs = w.value(f"icmp slt {kind} {w.value(f'xor {kind} {rest}, {b}')}, 0")
        differ = w.value(f"and i1 {some}, {signs}")
        if name == "floor_divide":
            less = w.value(f"sub {kind} {quotient}, 1")
            return w.value(f"select i1 {differ}, {kind} {less}, {kind} {quotient}")
        more = w.value(f"add {kind} {rest}, {b}")
        return w.value(f"select i1 {differ}, {kind} {more}, {kind} {rest}")

    return compute


def _shift(dtype: DType, name: str) -> Callable[[Writer, str, str], str]:
    kind = kind_of(dtype)

    def compute(w: Writer, a: str, b: str) -> str:
        inside = w.value(f"icmp ult {kind} {b}, {dtype.bits}")
        if name == "right_shift" and dtype.kind == "int":
            most = w.value(f"select i1 {inside}, {kind} {b}, {kind} {dtype.bits - 1}")
            return w.value(f"ashr {kind} {a}, {most}")
        safe = w.value(f"select i1 {inside}, {kind} {b}, {kind} 0")
        shifted = w.value(f"{'lshr' if name == 'right_shift' else 'shl'} {kind} {a}, {safe}")
        return w.value(f"select i1 {inside}, {kind} {shifted}, {kind} 0")

    return compute


def _comparison(dtype: DType, name: str) -> WordLowering:
    kind = kind_of(dtype)
    if dtype.is_float:
        text = f"fcmp {_ORDERED[name]} {kind}"
    else:
        short = {"equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le"}
        short |= {"greater": "gt", "greater_equal": "ge"}
        sign = "" if short[name] in ("eq", "ne") else "s" if dtype.kind == "int" else "u"
        text = f"icmp {sign}{short[name]} {kind}"

    def lower(w: Writer, a: str, b: str) -> str:
        holds = w.value(f"{text} {take(w, dtype, a)}, {take(w, dtype, b)}")
        return w.value(f"zext i1 {holds} to i64")

    return lower


def _negative(dtype: DType) -> WordLowering:
    kind = kind_of(dtype)

    def lower(w: Writer, a: str) -> str:
        value = take(w, dtype, a)
        text = f"fneg {kind} {value}" if dtype.is_float else f"sub {kind} 0, {value}"
        return give(w, dtype, w.value(text))

    return lower


def _abs(dtype: DType) -> WordLowering:
    kind = kind_of(dtype)

    def lower(w: Writer, a: str) -> str:
        value = take(w, dtype, a)
        if dtype.is_float:
            name = "f64" if kind == "double" else "f32"
            value = w.value(f"call {kind} @llvm.fabs.{name}({kind} {value})")
        elif dtype.kind == "int":
            negated = w.value(f"sub {kind} 0, {value}")
            below = w.value(f"icmp slt {kind} {value}, 0")
            value = w.value(f"select i1 {below}, {kind} {negated}, {kind} {value}")
        return give(w, dtype, value)

    return lower


def _not(dtype: DType) -> WordLowering:
    ones = "true" if dtype.is_bool else "-1"

    def lower(w: Writer, a: str) -> str:
        value = take(w, dtype, a)
        return give(w, dtype, w.value(f"xor {kind_of(dtype)} {value}, {ones}"))

    return lower


# --- casts --------------------------------------------------------------------------------------


def _cast(source: DType, target: DType) -> WordLowering | None:
    """Return the lowering of a cast, None where the C body does it."""
    if target is BFLOAT16 and source.bits == 64:
        return None  # C rounds to odd, also what is next to nothing
    if (source.name, target.name) == ("bfloat16", "float32"):
        return lambda w, a: w.value(f"and i64 {w.value(f'shl i64 {a}, 16')}, 4294967295")

    def lower(w: Writer, a: str) -> str:
        value = _converted(w, source, target, take(w, source, a))
        word = give(w, target, value)
        if (source.name, target.name) == ("float16", "float32"):
            return _with_nan_of_half(w, a, value, word)
        return word

    return lower


def _with_nan_of_half(w: Writer, half: str, value: str, word: str) -> str:
    """Return the word of a float that was a half, where a NaN keeps its bits, though it signals."""
    sign = w.value(f"shl i64 {w.value(f'and i64 {half}, 32768')}, 16")
    rest = w.value(f"shl i64 {w.value(f'and i64 {half}, 1023')}, 13")
    nan = w.value(f"or i64 {w.value(f'or i64 {sign}, {rest}')}, {0x7F800000}")
    is_nan = w.value(f"fcmp uno float {value}, 0.0")
    return w.value(f"select i1 {is_nan}, i64 {nan}, i64 {word}")


def _to_odd(w: Writer, value: str) -> str:
    """Round a double to a float whose last bit says that something was lost, so that rounding it
    to fewer bits is rounding the double. It must be 0 in those if it is too small for a float.
    """
    bits = w.value(f"bitcast double {value} to i64")
    lost = w.value(f"icmp ne i64 {w.value(f'and i64 {bits}, {_BEYOND_FLOAT}')}, 0")
    kept = w.value(f"and i64 {bits}, {~_BEYOND_FLOAT}")
    odd = w.value(f"or i64 {kept}, {_BEYOND_FLOAT + 1}")
    whole = w.value(f"select i1 {lost}, i64 {odd}, i64 {kept}")
    return w.value(f"fptrunc double {w.value(f'bitcast i64 {whole} to double')} to float")


def _converted(w: Writer, source: DType, target: DType, value: str) -> str:
    old, new = kind_of(source), kind_of(target)
    if target.is_bool:
        text = f"fcmp une {old} {value}, 0.0" if source.is_float else f"icmp ne {old} {value}, 0"
        return w.value(text)
    if old == new:
        return value
    if target.bits == 16 and target.is_float and not source.is_bool:
        # Integers are rounded twice, first to a double.
        signed = "sitofp" if source.kind == "int" else "uitofp"
        wide = value if source.is_float else w.value(f"{signed} {old} {value} to double")
        return _to_odd(w, wide)
    if source.is_float and target.is_float:
        return w.value(f"{'fpext' if target.bits == 64 else 'fptrunc'} {old} {value} to {new}")
    if target.is_float:
        signed = "sitofp" if source.kind == "int" else "uitofp"
        return w.value(f"{signed} {old} {value} to {new}")
    if source.is_float:
        name = f"llvm.fpto{'s' if target.kind == 'int' else 'u'}i.sat.{new}.f64"
        wide = value if old == "double" else w.value(f"fpext float {value} to double")
        return w.value(f"call {new} @{name}(double {wide})")
    source_bits = 1 if source.is_bool else source.bits
    if source_bits == target.bits:
        return value
    if source_bits > target.bits:
        return w.value(f"trunc {old} {value} to {new}")
    return w.value(f"{'sext' if source.kind == 'int' else 'zext'} {old} {value} to {new}")


def declarations() -> str:
    """Return the intrinsics that lowerings call."""
    lines = ["declare float @llvm.fabs.f32(float)", "declare double @llvm.fabs.f64(double)"]
    for sign in "su":
        for bits in (8, 16, 32, 64):
            lines.append(f"declare i{bits} @llvm.fpto{sign}i.sat.i{bits}.f64(double)")
    return "\n".join(lines) + "\n"


# --- the table ----------------------------------------------------------------------------------


def _select(w: Writer, condition: str, a: str, b: str) -> str:
    holds = w.value(f"icmp ne i64 {condition}, 0")
    return w.value(f"select i1 {holds}, i64 {a}, i64 {b}")


def _logical(name: str) -> WordLowering:
    operation = {"logical_and": "and", "logical_or": "or", "logical_xor": "xor"}[name]

    def lower(w: Writer, a: str, b: str) -> str:
        first, second = (w.value(f"icmp ne i64 {x}, 0") for x in (a, b))
        return w.value(f"zext i1 {w.value(f'{operation} i1 {first}, {second}')} to i64")

    return lower


def _logical_not(w: Writer, a: str) -> str:
    return w.value(f"zext i1 {w.value(f'icmp eq i64 {a}, 0')} to i64")


def _integer_rows(dtype: DType) -> dict[str, WordLowering]:
    kind, signed = kind_of(dtype), "s" if dtype.kind == "int" else "u"
    rows = {name: _binary(dtype, _operation(kind, op)) for name, op in _WRAPPING.items()}
    for name in ("divide", "mod", "floor_divide", "floor_mod"):
        rows[name] = _binary(dtype, _division(dtype, name))
    for name in ("left_shift", "right_shift"):
        rows[name] = _binary(dtype, _shift(dtype, name))
    rows["maximum"] = _binary(dtype, _extreme(kind, f"{signed}gt"))
    rows["minimum"] = _binary(dtype, _extreme(kind, f"{signed}lt"))
    return rows


def _float_rows(dtype: DType) -> dict[str, WordLowering]:
    kind = kind_of(dtype)
    rows = {name: _binary(dtype, _operation(kind, op)) for name, op in _FLOATING.items()}
    rows["maximum"] = _binary(dtype, _float_extreme(kind, "oge"))
    rows["minimum"] = _binary(dtype, _float_extreme(kind, "ole"))
    return rows


def _rows_of(dtype: DType) -> dict[str, WordLowering]:
    rows: dict[str, WordLowering] = {}
    if dtype in NUMERIC:
        rows |= _float_rows(dtype) if dtype.is_float else _integer_rows(dtype)
        rows |= {"negative": _negative(dtype), "abs": _abs(dtype)}
    if not dtype.is_float:
        kind = kind_of(dtype)
        rows |= {name: _binary(dtype, _operation(kind, op)) for name, op in _BITWISE.items()}
        rows["bitwise_not"] = _not(dtype)
    return rows | {name: _comparison(dtype, name) for name in COMPARISONS}


def _table() -> dict[str, WordLowering]:
    table: dict[str, WordLowering] = {
        "word": lambda w, value: value,
        "move": lambda w, value: value,
        "select": _select,
        "logical_not": _logical_not,
        **{name: _logical(name) for name in LOGICAL},
    }
    for dtype in COMPUTED:
        table |= {word_name(name, dtype): row for name, row in _rows_of(dtype).items()}
    for source in COMPUTED:
        for target in COMPUTED:
            lowering = _cast(source, target) if source is not target else None
            if lowering is not None:
                table[cast_name(source, target)] = lowering
    return table


# From the name of an instruction that writes a word to what makes it of the words it reads.
WORDS = _table()


def needs_half(name: str) -> bool:
    """Tell whether a lowering asks the CPU for conversions of float16."""
    return "f16" in name.replace("bf16", "")
