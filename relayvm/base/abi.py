"""What compiled code, the machine and files share: signatures, images and their C structs.

The tables `C_STRUCTS` and `TRAP_CODES` are the one home of layouts shared with C; headers, cffi
declarations and LLVM types are generated from them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from relayvm.base.dims import Dim, DimVar
from relayvm.base.dtypes import DType

MAX_RANK = 8
ALIGN_BYTES = 64
# What rows of weights meet must not lie in the sets of a first-level cache where these do: sets
# repeat every page. Large tensors of the machine begin with a page, large constants half-way.
PAGE_BYTES = 4096
LARGE_BYTES = 1 << 16
MAX_BYTES = 1 << 46
# What the function in `Image.texts` is called.
TEXT_SYMBOL = "@inlined"
WORK_PER_STEP = 4096

# A phase returns 0 or a status: the number of a row of `TRAP_REASONS`, whose two values it has
# written to `values` then, or a trap code alone.
PHASE_PROTOTYPE = (
    "int32_t (*)(void *const *args, const int64_t *dims, int64_t begin, int64_t end, "
    "void *scratch, int64_t *values)"
)
STATUS_REASON_SHIFT = 8
STATUS_UNSIGNED = 1 << 16  # the first of the values is uint64


class Direction(IntEnum):
    """Whether a kernel reads or writes an operand."""

    INPUT = 0
    OUTPUT = 1


class Access(IntEnum):
    """How a kernel reaches an operand.

    DENSE: row-major, its dims alone say where an element is. STRIDED: `rank` element strides
    follow in `dims`, in operand order after the dim variables; an axis of size 1 has stride 0, any
    other that of a row-major tensor, which is 1 for the last.
    SCALAR: pointer to a register slot holding the value's own bits.
    """

    DENSE = 0
    STRIDED = 1
    SCALAR = 2


@dataclass(frozen=True, slots=True)
class Operand:
    """One argument of a kernel; dims are expressions over the kernel's dim variables, never `?`."""

    direction: Direction
    dtype: DType
    dims: tuple[Dim, ...]
    access: Access = Access.DENSE

    @property
    def rank(self) -> int:
        return len(self.dims)


@dataclass(frozen=True, slots=True)
class DimSource:
    """Where a dim variable is read: an axis of an input, or a scalar input's value (`axis` -1)."""

    operand: int
    axis: int


@dataclass(frozen=True, slots=True)
class DimCheck:
    """Two expressions that must be equal before a kernel runs; `what` names them in the trap."""

    a: Dim
    b: Dim
    what: str


@dataclass(frozen=True, slots=True)
class KernelSignature:
    """All that the machine needs to call a kernel safely.

    Operands are inputs first, then outputs, in the order of `args`. `dims[i]` is the value of
    `dim_vars[i]`, read as `sources[i]` says; strides of STRIDED operands follow. Every input dim
    is checked against its expression, then `checks`; outputs are allocated with their dims.
    `in_place` pairs (output, input) by operand index. `scratch_bytes` may depend on dims.
    `private_bytes`, which may too, are for each worker that runs slices: where they are not 0 their
    address is the last of `args`, after the operands. What a phase finds there is anything.
    `phases[p]` is the extent of phase p's outer axis; they run in order with a barrier between.
    Rounds of it may run at once, but for chains: `chains[p]` rounds one after the other, from the
    first on, run in order and on one thread. No numbers at all: each round is a chain.
    `work` estimates scalar operations of the whole kernel.
    """

    operands: tuple[Operand, ...]
    dim_vars: tuple[DimVar, ...]
    sources: tuple[DimSource, ...]
    checks: tuple[DimCheck, ...] = ()
    in_place: tuple[tuple[int, int], ...] = ()
    scratch_bytes: Dim = 0
    phases: tuple[Dim, ...] = (1,)
    work: Dim = 1
    private_bytes: Dim = 0
    chains: tuple[Dim, ...] = ()

    @property
    def inputs(self) -> tuple[Operand, ...]:
        return tuple(o for o in self.operands if o.direction is Direction.INPUT)

    @property
    def outputs(self) -> tuple[Operand, ...]:
        return tuple(o for o in self.operands if o.direction is Direction.OUTPUT)


IMAGE_IMPORTS = ("memcpy", "memmove", "memset")


@dataclass(frozen=True, slots=True)
class Image:
    """Position-independent machine code of one or more kernels, relocated and ready to be mapped.

    `code` is `.text` and `.rodata` laid out with 64-byte alignment; `entries[kernel][phase]` is
    the offset of a phase function. `imports` pairs a name of `IMAGE_IMPORTS` with the offset of
    the 8-byte slot that receives its address when the image is mapped. `features` are the CPU
    features without which it must not run. `texts` are LLVM functions of small kernels, made with
    the code for who inlines them; files do not hold them.
    """

    triple: str
    features: tuple[str, ...]
    code: bytes
    entries: dict[str, tuple[int, ...]]
    imports: tuple[tuple[str, int], ...] = ()
    texts: dict[str, str] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Kernel:
    """A built kernel: its portable nest as text, its signature, and the image of its code."""

    name: str
    nest: str
    signature: KernelSignature
    image: Image | None = field(default=None, repr=False)


class TrapCode(IntEnum):
    """Why a run stopped; the number a kernel or instruction reports."""

    NONE = 0
    INDEX_OUT_OF_RANGE = 1
    SHAPE_MISMATCH = 2
    MATCH_FAILED = 3
    OUT_OF_MEMORY = 4
    OUT_OF_STEPS = 5
    OUT_OF_DEPTH = 6
    INTERRUPTED = 7
    EMPTY_REFERENCE = 8
    SIZE_OVERFLOW = 9
    BAD_VALUE = 10


TRAP_CODES: dict[TrapCode, tuple[str, str]] = {
    TrapCode.INDEX_OUT_OF_RANGE: ("index-out-of-range", "an index is outside its axis"),
    TrapCode.SHAPE_MISMATCH: ("run-time-shape", "a size is not what the program requires"),
    TrapCode.MATCH_FAILED: ("match-failed", "no clause of the match fits the value"),
    TrapCode.OUT_OF_MEMORY: ("out-of-memory", "the memory limit is reached"),
    TrapCode.OUT_OF_STEPS: ("out-of-steps", "the step limit is reached"),
    TrapCode.OUT_OF_DEPTH: ("out-of-depth", "the call depth limit is reached"),
    TrapCode.INTERRUPTED: ("interrupted", "the run was interrupted"),
    TrapCode.EMPTY_REFERENCE: (
        "empty-reference",
        "a reference is read while its value is taken out",
    ),
    TrapCode.SIZE_OVERFLOW: ("size-overflow", "a tensor would need more than 2^46 bytes"),
    TrapCode.BAD_VALUE: ("bad-value", "a value is outside the operator's domain"),
}


@dataclass(frozen=True, slots=True)
class TrapReason:
    """Why values of operands stop a kernel. `text` shows the two values that it leaves: `%d` are
    integers, `%g` float64; a reason without numbers leaves them unused.
    """

    code: TrapCode
    text: str


# The evaluator and the machine say what these say. A row's number is its place, from 1 on; files
# hold code that knows the numbers.
TRAP_REASONS: dict[str, TrapReason] = {
    "index": TrapReason(TrapCode.INDEX_OUT_OF_RANGE, "index %d is outside an axis of %d"),
    **{
        name: TrapReason(TrapCode.BAD_VALUE, text)
        for name, text in {
            "size": "%d is no size (entry %d)",
            "broadcast": "a size of %d does not broadcast to %d",
            "new_size": "%d is neither a size nor -1 (entry %d)",
            "taken_over": "entry %d of the new shape takes a size over, and there are %d",
            "open_sizes": "%d sizes of the new shape are -1",
            "elements": "%d elements do not fit a shape whose sizes hold %d",
            "place": "%d is no place for new axes in a rank of %d",
            "axis": "axis %d is outside a rank of %d",
            "axis_twice": "axis %d is named twice",
            "not_one": "axis %d has size %d, not 1",
            "stride": "the stride of axis %d is 0",
            "count": "%d elements are asked of an axis of %d",
            "pad": "a pad of %d does not fit an axis of %d",
            "range": "a distance of %g in steps of %g has no finite number of elements",
            "scale": "a scale of %g is not between 0 and %g",
            "empty": "an axis of size 0 cannot be resized to %d",
            "row": "row %d is outside a tensor of %d rows",
        }.items()
    },
}
REASON_NUMBERS = {name: number for number, name in enumerate(TRAP_REASONS, 1)}


def reason_text(reason: str, first: float = 0, second: float = 0) -> str:
    """Return what a row of `TRAP_REASONS` says of two values."""
    text = TRAP_REASONS[reason].text
    return text % (first, second)[: text.count("%")]


def trap_status(reason: str, is_unsigned: bool = False) -> int:
    """Return what a phase returns that stops for a reason."""
    unsigned = STATUS_UNSIGNED if is_unsigned else 0
    number = REASON_NUMBERS[reason] << STATUS_REASON_SHIFT
    return int(TRAP_REASONS[reason].code) | number | unsigned


def named_trap(operator: str, message: str) -> str:
    """Return the message of a trap with the name of the operator that it is about."""
    return message if not operator or f"`{operator}`" in message else f"`{operator}`: {message}"
