"""The table of element types: one row a dtype, with its name in every vocabulary.

Everything that needs a dtype's spelling (numpy, C, LLVM, DLPack, text, opcodes) reads it from a
row here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from relayvm.base.narrow import arrays, bfloat16, host, stored


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """One element type; equal to its name, so that `dtype == "float32"` holds.

    `kind` is one of `bool`, `int`, `uint`, `float`, and `stored` for what is kept in a byte and
    computed in the dtype `wide`; `short` is the suffix used in instruction names and literals;
    `code` is the number stored in executables; `dlpack` is the DLPack type code.
    """

    name: str
    code: int
    kind: str
    bits: int
    short: str
    c: str
    llvm: str
    dlpack: int
    wide: str = ""

    @property
    def itemsize_bytes(self) -> int:
        """Bytes that one element takes in memory (a bool takes one)."""
        return max(1, self.bits // 8)

    @property
    def numpy(self) -> np.dtype:
        """The numpy dtype with the same elements, in native byte order."""
        return host.array_dtype(self.name) if self.is_narrow else np.dtype(self.name)

    def array(self, value: Any) -> np.ndarray:
        """Return numbers as an array, rounded to nearest even; floats out of range are infinite."""
        if self.is_narrow:
            return arrays.rounded(arrays.readable(np.asarray(value)), self.name)
        with np.errstate(over="ignore"):
            return np.array(value, self.numpy)

    def nearest(self, value: float) -> float:
        """Return the float of this dtype nearest to a number."""
        return float(arrays.readable(self.array(value)))

    @property
    def is_narrow(self) -> bool:
        """True for dtypes that numpy has not."""
        return self.name in host.SIZES

    @property
    def is_stored(self) -> bool:
        """True for dtypes that nothing computes in: they are moved, and cast to others."""
        return self.kind == "stored"

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """True for signed and unsigned integers, not for bool."""
        return self.kind in ("int", "uint")

    @property
    def is_real(self) -> bool:
        """True for numbers with fractions: floats, and those that are stored in a byte."""
        return self.is_float or self.name in stored.FORMATS

    @property
    def is_bool(self) -> bool:
        return self.kind == "bool"

    @property
    def is_signed(self) -> bool:
        """True for signed integers and floats."""
        return self.kind in ("int", "float") or (self.is_stored and not self.wide.startswith("u"))

    @property
    def min(self) -> int | float:
        """The least finite value."""
        if self.name in stored.WHOLE:
            return stored.WHOLE[self.name].min
        if self.name in stored.FORMATS:
            return -float(self.max)
        if self.is_float:
            return -float(self.max)
        return -(1 << (self.bits - 1)) if self.kind == "int" else 0

    @property
    def tiny(self) -> float:
        """The least positive normal float."""
        if self.name in stored.FORMATS:
            return stored.smallest_normal(stored.FORMATS[self.name])
        return bfloat16.TINY if self.name == "bfloat16" else float(np.finfo(self.numpy).tiny)

    @property
    def max(self) -> int | float:
        """The greatest finite value."""
        if self.name in stored.WHOLE:
            return stored.WHOLE[self.name].max
        if self.name in stored.FORMATS:
            return stored.largest(stored.FORMATS[self.name])
        if self.is_float:
            return bfloat16.MAX if self.name == "bfloat16" else float(np.finfo(self.numpy).max)
        if self.is_bool:
            return 1
        return (1 << (self.bits - 1)) - 1 if self.kind == "int" else (1 << self.bits) - 1

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, str):
            return self.name == other
        return self.name == other.name if isinstance(other, DType) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name


DTYPES: tuple[DType, ...] = (
    DType("bool", 0, "bool", 1, "b1", "uint8_t", "i8", 6),
    DType("int8", 1, "int", 8, "i8", "int8_t", "i8", 0),
    DType("int16", 2, "int", 16, "i16", "int16_t", "i16", 0),
    DType("int32", 3, "int", 32, "i32", "int32_t", "i32", 0),
    DType("int64", 4, "int", 64, "i64", "int64_t", "i64", 0),
    DType("uint8", 5, "uint", 8, "u8", "uint8_t", "i8", 1),
    DType("uint16", 6, "uint", 16, "u16", "uint16_t", "i16", 1),
    DType("uint32", 7, "uint", 32, "u32", "uint32_t", "i32", 1),
    DType("uint64", 8, "uint", 64, "u64", "uint64_t", "i64", 1),
    DType("float16", 9, "float", 16, "f16", "uint16_t", "half", 2),
    DType("float32", 10, "float", 32, "f32", "float", "float", 2),
    DType("float64", 11, "float", 64, "f64", "double", "double", 2),
    DType("bfloat16", 12, "float", 16, "bf16", "uint16_t", "i16", 4),
    DType("int4", 13, "stored", 4, "i4", "int8_t", "i8", 0, "int8"),
    DType("uint4", 14, "stored", 4, "u4", "uint8_t", "i8", 1, "uint8"),
    DType("int2", 15, "stored", 2, "i2", "int8_t", "i8", 0, "int8"),
    DType("uint2", 16, "stored", 2, "u2", "uint8_t", "i8", 1, "uint8"),
    DType("float8_e4m3fn", 17, "stored", 8, "f8e4m3fn", "uint8_t", "i8", 10, "float32"),
    DType("float8_e5m2", 18, "stored", 8, "f8e5m2", "uint8_t", "i8", 12, "float32"),
    DType("float8_e4m3fnuz", 19, "stored", 8, "f8e4m3fnuz", "uint8_t", "i8", 11, "float32"),
    DType("float8_e5m2fnuz", 20, "stored", 8, "f8e5m2fnuz", "uint8_t", "i8", 13, "float32"),
    DType("float4_e2m1fn", 21, "stored", 4, "f4e2m1fn", "uint8_t", "i8", 17, "float32"),
)

# Names that programs of others have for a row; what is printed and written has its own.
ALIASES = {"e4m3_float8": "float8_e4m3fn", "e5m2_float8": "float8_e5m2"}

NAMES: tuple[str, ...] = tuple(row.name for row in DTYPES)
BY_NAME: dict[str, DType] = {row.name: row for row in DTYPES}
BY_NAME |= {alias: BY_NAME[name] for alias, name in ALIASES.items()}
BY_CODE: dict[int, DType] = {row.code: row for row in DTYPES}

BOOL = BY_NAME["bool"]
INT8, INT16, INT32, INT64 = (BY_NAME[n] for n in ("int8", "int16", "int32", "int64"))
UINT8, UINT16, UINT32, UINT64 = (BY_NAME[n] for n in ("uint8", "uint16", "uint32", "uint64"))
FLOAT16, FLOAT32, FLOAT64 = (BY_NAME[n] for n in ("float16", "float32", "float64"))

BFLOAT16 = BY_NAME["bfloat16"]

FLOATS = tuple(row for row in DTYPES if row.is_float)
INTEGERS = tuple(row for row in DTYPES if row.is_integer)
NUMERIC = INTEGERS + FLOATS
STORED = tuple(row for row in DTYPES if row.is_stored)
COMPUTED = tuple(row for row in DTYPES if not row.is_stored)
# What may be read as bits of another dtype.
WHOLE_BYTES = NUMERIC + tuple(row for row in STORED if row.bits == 8)
# Floats of 16 bits: computed in float32, and rounded once an operation.
NARROW = (FLOAT16, BFLOAT16)


def number_of(value: Any) -> Any:
    """Return an array of one element, or a scalar of numpy, as a Python number."""
    array = np.asarray(value)
    return arrays.readable(array).item()


def dtype_of(value: str | DType | np.dtype | type) -> DType:
    """Return the row that `value` names; raises KeyError with the known names otherwise."""
    if isinstance(value, DType):
        return value
    name = value if isinstance(value, str) else host.name_of(np.dtype(value))
    if name not in BY_NAME:
        raise KeyError(f"unknown dtype `{name}`; known are {', '.join(NAMES)}")
    return BY_NAME[name]
