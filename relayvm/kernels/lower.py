"""Lowering: tensor expressions to the naive nest, and the signature under which the machine calls
a kernel.

The naive nest is scalar, one phase a kept tensor, in the order of reduction that all schedules
keep.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from relayvm.base.abi import (
    ALIGN_BYTES,
    MAX_BYTES,
    Access,
    DimCheck,
    DimSource,
    Direction,
    KernelSignature,
    Operand,
)
from relayvm.base.diagnostics import error
from relayvm.base.dims import (
    Dim,
    DimExpr,
    DimTerm,
    DimVar,
    dim_add,
    dim_broadcast,
    dim_floordiv,
    dim_limited,
    dim_max,
    dim_min,
    dim_mod,
    dim_mul,
    dim_sub,
    symbol,
)
from relayvm.kernels import loops as n
from relayvm.kernels.compute import (
    ArgReduce,
    Cast,
    Compute,
    Placeholder,
    Reduce,
    Scalar,
    ScalarExpr,
    Select,
    Tensor,
    TensorLoad,
    compute,
)
from relayvm.kernels.index import simplify as s
from relayvm.kernels.index.bounds import ensure_bounds
from relayvm.kernels.scalar_ops import cast_work, scalar_work
from relayvm.kernels.schedules.emit import Context, Emitter, Names
from relayvm.kernels.schedules.moves import moves_all
from relayvm.kernels.schedules.plan import (
    Stage,
    body_of,
    identity_only,
    inlines_reduction,
    operands,
    plan,
    program_of,
    reads,
    topological,
)
from relayvm.kernels.schedules.program import program_phases
from relayvm.kernels.schedules.reduction import serial
from relayvm.kernels.schedules.rounds import cut_rounds


@dataclass(frozen=True, eq=False)
class Computation:
    """What one kernel computes: its inputs (placeholders), outputs and dim variables in ABI order.

    `strided` holds the numbers of inputs that are reached through strides, `joined` sizes with the
    numbers to which they may be broadcast at run time.
    """

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    dim_vars: tuple[DimVar, ...] = ()
    strided: frozenset[int] = frozenset()
    joined: tuple[tuple[Dim, int], ...] = ()


def joined_sizes(
    inputs: tuple[Tensor, ...], strided: frozenset[int], checks: tuple[DimCheck, ...]
) -> tuple[tuple[Dim, int], ...]:
    """Return what checks join with a number, of the sizes that strided inputs have."""
    sizes = {d for number in strided for d in inputs[number].shape}
    found: dict[tuple[Dim, int], None] = {}
    for check in checks:
        match check.a:
            case DimExpr(((((DimTerm("broadcast", a, b), 1),), 1),)):
                for size, whole in ((a, b), (b, a)):
                    if isinstance(whole, int) and whole > 1 and size in sizes:
                        found[size, whole] = None
    return tuple(found)


def distinct_outputs(computation: Computation) -> tuple[Tensor, ...]:
    """Return the outputs, with copies of inputs and of outputs that came before."""
    result: list[Tensor] = []
    for output in computation.outputs:
        if isinstance(output.op, Placeholder) or output in result:
            source = output
            output = compute(source.shape, lambda *i, t=source: t[i], name=f"{source.name}_copy")
        result.append(output)
    return tuple(result)


def dim_names(dim_vars: tuple[DimVar, ...]) -> dict[DimVar, str]:
    """Return a name for each dim variable, unique in a nest."""
    names: dict[DimVar, str] = {}
    for var in dim_vars:
        base = "".join(ch if ch.isalnum() or ch == "_" else "_" for ch in var.name) or "d"
        base = base if base[0].isalpha() or base[0] == "_" else f"d{base}"
        name, number = base, 0
        while name in names.values():
            number += 1
            name = f"{base}_{number}"
        names[var] = name
    return names


@dataclass(eq=False)
class Skeleton:
    """The buffers and stages of a kernel, before loops are chosen."""

    context: Context
    stages: list[Stage]
    operands: tuple[n.Buffer, ...]
    scratch: list[n.Buffer]
    outputs: tuple[Tensor, ...]
    joined: tuple[n.Expr, ...] = ()
    private: list[n.Buffer] = field(default_factory=list)


def skeleton(
    computation: Computation, outputs: tuple[Tensor, ...], forced: frozenset[Tensor] = frozenset()
) -> Skeleton:
    """Plan the stages and give each kept tensor its buffer; `forced` ones are kept too."""
    names = dim_names(computation.dim_vars)
    context = Context(Names(), names, {})
    operands: list[n.Buffer] = []
    for number, tensor in enumerate(computation.inputs):
        access = _access(tensor, number in computation.strided)
        operands.append(_buffer(context, f"in{number}", tensor, "input", access))
    for number, tensor in enumerate(outputs):
        operands.append(_buffer(context, f"out{number}", tensor, "output", _access(tensor)))
    joined = tuple(_joined(context, size, whole) for size, whole in computation.joined)
    if computation.strided:
        context.broadcast_along(topological(outputs), joined)
    chosen = plan(outputs, forced, partial(moves_all, context))
    scratch: list[n.Buffer] = []
    for tensor in chosen.kept:
        if tensor not in context.buffers:
            name = f"tmp{len(scratch)}"
            scratch.append(_buffer(context, name, tensor, "scratch", Access.DENSE))
    return Skeleton(context, chosen.stages, tuple(operands), scratch, outputs, joined)


def _joined(context: Context, size: Dim, whole: int) -> n.Expr:
    own = context.dim(size)
    return n.select(n.call("equal", own, n.const(1)), n.const(whole), own)


def _buffer(context: Context, name: str, tensor: Tensor, role: str, access: Access) -> n.Buffer:
    shape = tuple(context.dim(d) for d in tensor.shape)
    buffer = n.Buffer(name, tensor.dtype, shape, role, access)
    context.buffers[tensor] = buffer
    return buffer


def lower(computation: Computation) -> n.Nest:
    """Return the naive nest of a computation."""
    parts = skeleton(computation, distinct_outputs(computation))
    phases: list[n.Phase] = []
    for stage in parts.stages:
        if stage.program is not None:
            phases += program_phases(parts.context, stage.program, parts.scratch)
        else:
            phases += [naive_phase(parts.context, tensor) for tensor in stage.tensors]
    parts.private += parts.context.private
    return finish(computation.name, parts, phases)


def finish(name: str, parts: Skeleton, phases: list[n.Phase]) -> n.Nest:
    """Return the nest, every access of it proved or checked."""
    dims = tuple(parts.context.dims.values())
    scratch, private = tuple(parts.scratch), tuple(parts.private)
    nest = n.Nest(name, dims, parts.operands, scratch, tuple(phases), private, parts.joined)
    return ensure_bounds(cut_rounds(parts.context.names, nest))


def naive_phase(context: Context, tensor: Tensor) -> n.Phase:
    """Return scalar loops over the axes of one tensor; the first is the phase's own."""
    emitter = Emitter(context, serial)
    axes = tuple(context.names.var("i") for _ in tensor.shape) or (context.names.var("i"),)
    extents = tuple(context.dim(d) for d in tensor.shape) or (n.const(1),)
    for axis, extent in zip(axes, extents):
        emitter.prover.add_range(axis, n.const(0), extent)
    indices = axes[: tensor.rank]
    with emitter.block() as body:
        value = emitter.tensor(tensor, indices)
        body.append(n.Store(context.buffers[tensor], indices, value))
    statements = tuple(body)
    for axis, extent in reversed(list(zip(axes, extents))[1:]):
        statements = (n.For(axis, n.const(0), extent, 1, statements),)
    return n.Phase(axes[0], extents[0], statements)


def memory_layout(buffers: tuple[n.Buffer, ...]) -> tuple[tuple[n.Expr, ...], n.Expr]:
    """Return the byte offset of each scratch or private buffer, and the total, as expressions."""
    offset: n.Expr = n.const(0)
    offsets = []
    for buffer in buffers:
        offsets.append(offset)
        size: n.Expr = n.const(buffer.dtype.itemsize_bytes)
        for extent in buffer.shape:
            size = s.mul(size, extent)
        padded = s.floordiv(s.add(size, n.const(ALIGN_BYTES - 1)), n.const(ALIGN_BYTES))
        offset = s.add(offset, s.mul(padded, n.const(ALIGN_BYTES)))
    return tuple(offsets), offset


def kernel_signature(
    computation: Computation,
    nest: n.Nest,
    sources: tuple[DimSource, ...],
    checks: tuple[DimCheck, ...] = (),
    may_reuse: bool = True,
) -> KernelSignature:
    """Return the signature of a nest made from `computation`; `sources` follow its `dim_vars`."""
    variables = {name: var for var, name in dim_names(computation.dim_vars).items()}
    phases = tuple(expr_dim(phase.extent, variables) for phase in nest.phases)
    scratch = expr_dim(memory_layout(nest.scratch)[1], variables)
    private = expr_dim(memory_layout(nest.private)[1], variables)
    for dim in (*phases, scratch, private):
        if isinstance(dim, int) and dim > MAX_BYTES:
            reason = "loops or buffers of a kernel would have more than 2^46 elements"
            raise error("size-overflow", f"{reason}: {dim}")
    return KernelSignature(
        operands=operands_of(computation),
        dim_vars=computation.dim_vars,
        sources=sources,
        checks=checks,
        in_place=in_place_pairs(computation) if may_reuse else (),
        scratch_bytes=scratch,
        private_bytes=private,
        phases=phases,
        work=work_estimate(computation.outputs),
        chains=chains_of(nest, variables),
    )


def chains_of(nest: n.Nest, variables: Mapping[str, DimVar]) -> tuple[Dim, ...]:
    """Return the rounds of a chain of each phase as a signature has them: none where all are 1."""
    chains = tuple(expr_dim(phase.chain, variables) for phase in nest.phases)
    return () if all(isinstance(c, int) and c == 1 for c in chains) else chains


def operands_of(computation: Computation) -> tuple[Operand, ...]:
    """Return the operands of a computation's kernel: inputs, then outputs."""
    inputs = [
        Operand(Direction.INPUT, t.dtype, t.shape, _access(t, number in computation.strided))
        for number, t in enumerate(computation.inputs)
    ]
    outputs = [Operand(Direction.OUTPUT, t.dtype, t.shape, _access(t)) for t in computation.outputs]
    return (*inputs, *outputs)


def _access(tensor: Tensor, strided: bool = False) -> Access:
    if tensor.rank == 0:
        return Access.SCALAR
    return Access.STRIDED if strided else Access.DENSE


def expr_dim(expr: n.Expr, variables: Mapping[str, DimVar]) -> Dim:
    """Return an index expression over dims as a dim; the inverse of `simplify.dim_expr`."""
    match expr:
        case n.Const():
            return int(expr.value)
        case n.DimRef():
            return symbol(variables[expr.name])
        case n.Call(name, (a, b)):
            functions = {
                "add": dim_add,
                "subtract": dim_sub,
                "multiply": dim_mul,
                "floor_divide": dim_floordiv,
                "floor_mod": dim_mod,
                "minimum": dim_min,
                "maximum": dim_max,
            }
            return functions[name](expr_dim(a, variables), expr_dim(b, variables))
        case n.Select(_, a, b):
            return dim_broadcast(expr_dim(b, variables), expr_dim(a, variables))
        case _:
            raise AssertionError(f"{expr} is not a dim")


def in_place_pairs(computation: Computation) -> tuple[tuple[int, int], ...]:
    """Return (output, input) operand numbers that may share memory.

    The output must be the only kept tensor that reads the input, and only at the index it writes.
    """
    outputs = distinct_outputs(computation)
    chosen = plan(outputs)
    kept = set(chosen.kept)
    pairs = []
    taken: set[int] = set()
    for position, output in enumerate(outputs):
        for number, tensor in enumerate(computation.inputs):
            if number in taken or number in computation.strided or tensor.rank == 0:
                continue
            if tensor.dtype != output.dtype or not _same_dims(tensor, output):
                continue
            if _updates(output, tensor, kept):
                pairs.append((len(computation.inputs) + position, number))
                taken.add(number)
                break
            readers = [t for t in kept if reads(t, tensor, kept)]
            alone = readers == [output] and identity_only(output, tensor, kept)
            if alone and not inlines_reduction(output, kept):
                pairs.append((len(computation.inputs) + position, number))
                taken.add(number)
                break
    return tuple(pairs)


def _updates(output: Tensor, source: Tensor, kept: set[Tensor]) -> bool:
    """Return whether a program may write `output` over an input that nothing else reads."""
    program = program_of(output)
    if program is None or program.inputs.count(source) != 1:
        return False
    pair = program.outputs.index(output), program.inputs.index(source)
    others = kept - set(program.outputs)
    return pair in program.in_place and not any(reads(t, source, kept) for t in others)


def _same_dims(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape


def work_estimate(outputs: tuple[Tensor, ...]) -> Dim:
    """Return the number of scalar operations, counted on the naive nest, up to what files hold."""
    total: Dim = 0
    stages = plan(outputs)
    kept = set(stages.kept)
    for stage in stages.stages:
        if stage.program is not None:
            total = dim_add(total, stage.program.work)
    for tensor in kept:
        if program_of(tensor) is not None:
            continue
        size: Dim = 1
        for extent in tensor.shape:
            size = dim_mul(size, extent)
        work = dim_add(_body_work(body_of(tensor).body, kept), 1)
        total = dim_add(total, dim_mul(size, work))
    return dim_limited(total, MAX_BYTES)


def _body_work(body: ScalarExpr, kept: set[Tensor]) -> Dim:
    """Count what operators on data take, each shared one once; what only makes an index costs
    nothing.
    """
    total: Dim = 0
    seen: set[int] = set()
    stack: list[tuple[ScalarExpr, Dim]] = [(body, 1)]
    while stack:
        expr, times = stack.pop()
        if id(expr) in seen:
            continue
        seen.add(id(expr))
        if isinstance(expr, TensorLoad):
            if expr.tensor not in kept and isinstance(expr.tensor.op, Compute):
                stack.append((expr.tensor.op.body, times))
            continue
        if isinstance(expr, (Reduce, ArgReduce)):
            for axis in expr.axes:
                times = dim_mul(times, axis.extent)
        total = dim_add(total, dim_mul(times, _own_work(expr)))
        stack += [(node, times) for node in operands(expr)]
    return total


def _own_work(expr: ScalarExpr) -> int:
    match expr:
        case Scalar():
            return scalar_work(expr.name, expr.args[0].dtype)
        case Cast():
            return cast_work(expr.value.dtype, expr.dtype)
        case Select() | Reduce() | ArgReduce():
            return 1
        case _:
            return 0
