"""Stages of a kernel: which tensors are kept in memory, in which order; the rest is inlined."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from relayvm.base.dims import Dim, dim_mul, dims_equal
from relayvm.kernels.compute import (
    ArgReduce,
    Cast,
    Compute,
    IndexOf,
    IndexVar,
    Placeholder,
    Program,
    ProgramOutput,
    Reduce,
    Scalar,
    ScalarExpr,
    Select,
    Tensor,
    TensorLoad,
)

MAX_INLINE_DEPTH = 40
FEW_TOGETHER = 2
CHEAP = frozenset(
    ("add", "subtract", "multiply", "maximum", "minimum", "negative", "abs", "fma", "floor")
    + ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "ceil", "round")
    + ("logical_and", "logical_or", "logical_not", "logical_xor", "bitwise_and", "bitwise_or")
    + ("bitwise_xor", "bitwise_not", "left_shift", "right_shift", "isnan", "isinf", "isfinite")
    + ("trunc", "sign", "sqrt")
)


def operands(expr: ScalarExpr) -> tuple[ScalarExpr, ...]:
    """Return the direct subexpressions."""
    match expr:
        case TensorLoad():
            return expr.indices
        case Scalar():
            return expr.args
        case Cast():
            return (expr.value,)
        case IndexOf(told=told):
            return (expr.value,) if told is None else (expr.value, told.first, told.second)
        case Select():
            return (expr.condition, expr.a, expr.b)
        case Reduce() | ArgReduce():
            return (expr.body,)
        case _:
            return ()


def with_operands(expr: ScalarExpr, changed: Callable[[ScalarExpr], ScalarExpr]) -> ScalarExpr:
    """Return an expression with its direct subexpressions changed."""
    match expr:
        case TensorLoad():
            return replace(expr, indices=tuple(map(changed, expr.indices)))
        case Scalar():
            return replace(expr, args=tuple(map(changed, expr.args)))
        case Cast():
            return replace(expr, value=changed(expr.value))
        case IndexOf(told=told):
            if told is not None:
                first, second = changed(told.first), changed(told.second)
                told = replace(told, first=first, second=second)
            return replace(expr, value=changed(expr.value), told=told)
        case Select():
            condition, a, b = map(changed, operands(expr))
            return replace(expr, condition=condition, a=a, b=b)
        case Reduce() | ArgReduce():
            return replace(expr, body=changed(expr.body))
        case _:
            return expr


def users_first(root: ScalarExpr) -> Iterator[ScalarExpr]:
    """Yield each node of an expression once, after all that use it."""
    uses: dict[int, int] = {}
    for node in nodes(root):
        for operand in operands(node):
            uses[id(operand)] = uses.get(id(operand), 0) + 1
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        for operand in operands(node):
            uses[id(operand)] -= 1
            if not uses[id(operand)]:
                waiting.append(operand)


def nodes(expr: ScalarExpr) -> Iterator[ScalarExpr]:
    """Yield each distinct node of an expression once, operands after their users."""
    seen: set[int] = set()
    stack = [expr]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        stack.extend(reversed(operands(node)))


def body_of(tensor: Tensor) -> Compute:
    """Return the definition of a tensor that is not a placeholder."""
    assert isinstance(tensor.op, Compute), tensor
    return tensor.op


def has_reduction(tensor: Tensor) -> bool:
    """Return whether the tensor's own body reduces."""
    return isinstance(tensor.op, Compute) and any(
        isinstance(n, (Reduce, ArgReduce)) for n in nodes(tensor.op.body)
    )


def program_of(tensor: Tensor) -> Program | None:
    """Return the program that computes the tensor, if one does."""
    return tensor.op.source if isinstance(tensor.op, ProgramOutput) else None


def same_shape(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> bool:
    """Return whether two shapes are known to agree."""
    return len(a) == len(b) and all(dims_equal(x, y) is True for x, y in zip(a, b))


@dataclass(eq=False)
class Stage:
    """Tensors of one shape that one loop computes together, in order."""

    tensors: list[Tensor]

    @property
    def shape(self) -> tuple[Dim, ...]:
        return self.tensors[0].shape

    @property
    def program(self) -> Program | None:
        """The program that computes the tensors, which then have shapes of their own."""
        return program_of(self.tensors[0])


@dataclass(eq=False)
class Use:
    """One load of a tensor: by whom, where, and whether inside a reduction."""

    reader: Tensor
    load: TensorLoad
    reduction: Reduce | ArgReduce | None


@dataclass(eq=False)
class Plan:
    """The stages in order, and the tensors that have memory: outputs and scratch."""

    stages: list[Stage]
    kept: list[Tensor] = field(default_factory=list)


def topological(outputs: Iterable[Tensor]) -> list[Tensor]:
    """Return all tensors that `outputs` need, producers first, without recursion."""
    order: list[Tensor] = []
    done: set[Tensor] = set()
    for output in outputs:
        stack: list[tuple[Tensor, bool]] = [(output, False)]
        while stack:
            tensor, ready = stack.pop()
            if ready:
                if tensor not in done:
                    whole = program_of(tensor)
                    together = whole.outputs if whole is not None else (tensor,)
                    done.update(together)
                    order.extend(together)
                continue
            if tensor in done:
                continue
            stack.append((tensor, True))
            if isinstance(tensor.op, Compute):
                loads = [n.tensor for n in nodes(tensor.op.body) if isinstance(n, TensorLoad)]
                stack.extend((t, False) for t in reversed(loads) if t not in done)
            elif isinstance(tensor.op, ProgramOutput):
                needed = reversed(tensor.op.source.inputs)
                stack.extend((t, False) for t in needed if t not in done)
    return order


def plan(
    outputs: tuple[Tensor, ...],
    forced: frozenset[Tensor] = frozenset(),
    moves: Callable[[Use], bool] | None = None,
) -> Plan:
    """Choose what is kept in memory (`forced` in any case) and group it to stages.

    `moves` tells whether a use takes every element exactly once, if at other indices.
    """
    order = topological(outputs)
    uses = _uses(order)
    kept: set[Tensor] = set(outputs) | forced
    for tensor in order:
        whole = program_of(tensor)
        if whole is not None:
            kept.update(whole.outputs, whole.inputs)
    depth: dict[Tensor, int] = {}
    inlined: dict[Tensor, Tensor] = {}  # by the kept tensor that computes it: a reduction
    for tensor in reversed(order):
        if tensor in kept or not isinstance(tensor.op, Compute):
            continue
        if _must_keep(tensor, uses, kept, inlined, moves):
            kept.add(tensor)
    for tensor in order:
        if isinstance(tensor.op, Compute):
            inner = [n.tensor for n in nodes(tensor.op.body) if isinstance(n, TensorLoad)]
            depth[tensor] = 1 + max((depth.get(t, 0) for t in inner), default=0)
            if depth[tensor] > MAX_INLINE_DEPTH:
                kept.add(tensor)
            if tensor in kept:
                depth[tensor] = 0
    memory = [t for t in order if t in kept and isinstance(t.op, (Compute, ProgramOutput))]
    return Plan(_group(memory, kept), memory)


def _uses(order: list[Tensor]) -> dict[Tensor, list[Use]]:
    uses: dict[Tensor, list[Use]] = {}
    for tensor in order:
        if not isinstance(tensor.op, Compute):
            continue
        inside: dict[int, Reduce | ArgReduce] = {}
        for node in nodes(tensor.op.body):
            if isinstance(node, (Reduce, ArgReduce)):
                inside.update((id(n), node) for n in nodes(node.body))
        for node in nodes(tensor.op.body):
            if isinstance(node, TensorLoad):
                use = Use(tensor, node, inside.get(id(node)))
                uses.setdefault(node.tensor, []).append(use)
    return uses


def _must_keep(
    tensor: Tensor,
    uses: dict[Tensor, list[Use]],
    kept: set[Tensor],
    inlined: dict[Tensor, Tensor],
    moves: Callable[[Use], bool] | None,
) -> bool:
    """Decide for a tensor all of whose readers are decided."""
    if has_reduction(tensor):
        reader = _reader_in_place(tensor, uses, kept, moves)
        return reader is None or not _run_together(inlined.setdefault(reader, tensor), tensor)
    readers = uses.get(tensor, [])
    body = body_of(tensor).body
    costly = not _reads_runs(tensor) and any(
        isinstance(n, Scalar) and n.name not in CHEAP for n in nodes(body)
    )
    if not costly and not _ends_chain(tensor, uses):
        return False
    return len({u.reader for u in readers}) > 1 or any(_is_reread(u) for u in readers)


def _reads_runs(tensor: Tensor) -> bool:
    """Return whether a tensor is elements of an operand, in runs along the last axis: where each
    run begins may take work, which is nothing beside the run.
    """
    while isinstance(tensor.op, Compute):
        body, axes = tensor.op.body, tensor.op.axes
        if not isinstance(body, TensorLoad) or not axes or body.indices[-1:] != axes[-1:]:
            return False
        if any(n is axes[-1] for index in body.indices[:-1] for n in nodes(index)):
            return False
        tensor = body.tensor
    return isinstance(tensor.op, Placeholder)


def _ends_chain(tensor: Tensor, uses: dict[Tensor, list[Use]]) -> bool:
    """Return whether a tensor is made of a reduction that nothing else reads, at the same index.

    It is kept then instead of the reduction, so that it is computed once.
    """
    current = tensor
    while True:
        body = body_of(current).body
        sources = [m for m in nodes(body) if isinstance(m, TensorLoad)]
        made = [m for m in sources if isinstance(m.tensor.op, Compute)]
        for load in made:
            readers = uses.get(load.tensor, [])
            if len(readers) == 1 and _is_identity(readers[0]):
                if has_reduction(load.tensor):
                    return True
                current = load.tensor
                break
        else:
            return False


def _reader_in_place(
    tensor: Tensor,
    uses: dict[Tensor, list[Use]],
    kept: set[Tensor],
    moves: Callable[[Use], bool] | None,
) -> Tensor | None:
    """Return the kept tensor to which one chain of readers leads, each of which reads only at its
    own index, or each element once; None if there is none.
    """
    current = tensor
    while current not in kept or current is tensor:
        readers = uses.get(current, [])
        if len({u.reader for u in readers}) != 1:
            return None
        moved = moves is not None and len(readers) == 1 and moves(readers[0])
        if not moved and not all(_is_identity(u) for u in readers):
            return None
        current = readers[0].reader
        if has_reduction(current):
            return None
    return current


def _run_together(a: Tensor, b: Tensor) -> bool:
    """Return whether the reductions of two tensors run in one loop because they share what they
    read. Others would run in turn, each with half of the registers; so would products, which have
    an operand each.
    """
    if a is b:
        return True
    both = [_reductions(t) for t in (a, b)]
    if any(
        isinstance(r.body, Scalar) and r.body.name == "multiply" for found in both for r in found
    ):
        return False
    extents = [tuple(axis.extent for r in found for axis in r.axes) for found in both]
    return same_shape(*extents) and bool(_sources(a) & _sources(b))


def _reductions(tensor: Tensor) -> list[Reduce | ArgReduce]:
    return [m for m in nodes(body_of(tensor).body) if isinstance(m, (Reduce, ArgReduce))]


def _sources(tensor: Tensor) -> set[Tensor]:
    """Return the tensors that the reductions of a tensor read, with what they are made from up to
    other reductions.
    """
    found: set[Tensor] = set()
    pending = [m for r in _reductions(tensor) for m in nodes(r.body)]
    while pending:
        node = pending.pop()
        if not isinstance(node, TensorLoad) or node.tensor in found:
            continue
        found.add(node.tensor)
        if isinstance(node.tensor.op, Compute) and not has_reduction(node.tensor):
            pending.extend(nodes(node.tensor.op.body))
    return found


def _is_identity(use: Use) -> bool:
    axes = body_of(use.reader).axes
    return (
        use.reduction is None
        and use.load.indices == axes
        and same_shape(use.load.tensor.shape, use.reader.shape)
    )


def _is_reread(use: Use) -> bool:
    """Return whether a reduction reads an element for more than one of its results."""
    if use.reduction is None:
        return False
    own = body_of(use.reader).axes
    seen = {n for i in use.load.indices for n in nodes(i) if isinstance(n, IndexVar)}
    return any(axis not in seen and axis.extent != 1 for axis in own)


def _group(memory: list[Tensor], kept: set[Tensor]) -> list[Stage]:
    """Join neighbouring tensors of one shape that read each other at most at the same index."""
    stages: list[Stage] = []
    grouped: set[Tensor] = set()
    for tensor in memory:
        whole = program_of(tensor)
        if whole is not None:
            if tensor not in grouped:
                stages.append(Stage(list(whole.outputs)))
                grouped.update(whole.outputs)
            continue
        last = stages[-1] if stages else None
        if last is not None and _may_join(tensor, last, kept):
            last.tensors.append(tensor)
        else:
            stages.append(Stage([tensor]))
    return stages


def _may_join(tensor: Tensor, stage: Stage, kept: set[Tensor]) -> bool:
    if stage.program is not None:
        return False
    if has_reduction(tensor) or any(has_reduction(t) for t in stage.tensors):
        return False
    if not same_shape(tensor.shape, stage.shape):
        return False
    if _are_siblings(tensor, stage, kept):
        return False
    return all(identity_only(tensor, other, kept) for other in stage.tensors)


def _are_siblings(tensor: Tensor, stage: Stage, kept: set[Tensor]) -> bool:
    """Return whether a tensor and a stage sum independently of each other over many rows.

    Together each would have a part of the registers, with which rows are shared less. Few rows
    only read their weights, which they do as well together.
    """
    rows: Dim = 1
    for extent in tensor.shape[:-1]:
        rows = dim_mul(rows, extent)
    if isinstance(rows, int) and rows <= FEW_TOGETHER:
        return False
    if any(reads(tensor, other, kept) for other in stage.tensors):
        return False
    return all(_inlines_product(t, kept) for t in (tensor, *stage.tensors))


def _inlines_product(tensor: Tensor, kept: set[Tensor]) -> bool:
    return any(
        isinstance(m, Reduce) and isinstance(m.body, Scalar) and m.body.name == "multiply"
        for m in inlined_nodes(tensor, kept)
    )


def identity_only(tensor: Tensor, other: Tensor, kept: set[Tensor]) -> bool:
    """Return whether `tensor`, with what it inlines, reads `other` at its own index if at all."""
    if program_of(tensor) is not None:
        return False
    stack, seen = [(tensor, True)], {(tensor, True)}
    while stack:
        reader, direct = stack.pop()
        if not isinstance(reader.op, Compute):
            continue
        inside = {
            id(n)
            for r in nodes(reader.op.body)
            if isinstance(r, (Reduce, ArgReduce))
            for n in nodes(r.body)
        }
        for node in nodes(reader.op.body):
            if not isinstance(node, TensorLoad):
                continue
            plain = (
                direct
                and id(node) not in inside
                and node.indices == reader.op.axes
                and same_shape(node.tensor.shape, reader.shape)
            )
            if node.tensor is other and not plain:
                return False
            key = (node.tensor, plain)
            if node.tensor not in kept and key not in seen:
                seen.add(key)
                stack.append(key)
    return True


def inlined_nodes(tensor: Tensor, kept: AbstractSet[Tensor]) -> list[ScalarExpr]:
    """Return the nodes of a kept tensor's body and of all that is inlined in it."""
    found: list[ScalarExpr] = []
    stack, seen = [tensor], {tensor}
    while stack:
        current = stack.pop()
        if not isinstance(current.op, Compute):
            continue
        for node in nodes(current.op.body):
            found.append(node)
            if isinstance(node, TensorLoad) and node.tensor not in seen and node.tensor not in kept:
                seen.add(node.tensor)
                stack.append(node.tensor)
    return found


def reads(tensor: Tensor, other: Tensor, kept: AbstractSet[Tensor]) -> bool:
    """Return whether a kept tensor, with what it inlines, reads `other`."""
    whole = program_of(tensor)
    if whole is not None:
        return other in whole.inputs
    return any(isinstance(m, TensorLoad) and m.tensor is other for m in inlined_nodes(tensor, kept))


def inlines_reduction(tensor: Tensor, kept: AbstractSet[Tensor]) -> bool:
    """Return whether a kept tensor, with what it inlines, reduces."""
    return any(isinstance(m, (Reduce, ArgReduce)) for m in inlined_nodes(tensor, kept))
