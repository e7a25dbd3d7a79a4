"""Products computed at the sizes to which what follows broadcasts them.

Works on one block in A-normal form, before fusion.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from relayvm.base.dims import (
    AnyDim,
    Dim,
    DimExpr,
    DimTerm,
    DimVar,
    broadcast_factor,
    dim_floordiv,
    dim_mod,
    dim_mul,
    dim_variables,
    is_broadcast_of,
    linear_dim,
    symbol,
)
from relayvm.base.shapes import ShapeError, shape_context
from relayvm.compiler.lower.words import is_view, kernel_operator
from relayvm.compiler.transforms.blocks import Binding
from relayvm.compiler.transforms.fusion_rows import is_batched, is_product, trailing_axes, volume
from relayvm.ir.expr import Attrs, Call, Expr, Tuple, TupleGetItem, Var
from relayvm.ir.types import TensorType
from relayvm.ops import OPS
from relayvm.ops.operator import Fusion, Operator

_BROADCAST_TO, _TRANSPOSE, _RESHAPE = OPS["broadcast_to"], OPS["transpose"], OPS["reshape"]
_BY_ELEMENT = (Fusion.ELEMENTWISE, Fusion.BROADCAST)

Sizes = dict[int, Dim]


def broaden_products(
    bindings: list[Binding], reads: Mapping[Var, Iterable[Var]], escaping: Container[Expr]
) -> tuple[list[Binding], dict[Var, Binding]]:
    """Return the block with products of unknown sizes computed at those that a run may broadcast
    their results to.

    A product of `n` rows that is added to a mask of `m` rows gives `broadcast(m, n)` rows, which
    are `n`, unless n is 1. Computed at so many rows, it is computed row by row with all that
    follows. Its operands are broadcast instead, which a kernel does where it reads them.

    `let %s = nn.batch_matmul(%q, %k); add(%s, %mask)` ->
    `let %q1 = broadcast_to(%q, shape=[b, broadcast(m, n), 64]);
     let %s = nn.batch_matmul(%q1, %k); add(%s, %mask)`

    So is a product whose rows a softmax or the like makes weights, for the batch of the product
    that takes them.

    Also returned is, for the names in the new block, what the program wrote in their places: its
    rules are those that a run compares sizes by.
    """
    if not any(_is_product(binding.value) for binding in bindings):
        return bindings, {}
    block = _Block(bindings, reads, escaping)
    for index, binding in enumerate(bindings):
        if _is_product(binding.value):
            block.settle_weights(index)
    for index, binding in enumerate(bindings):
        if _is_by_element(binding.value) or _is_product(binding.value):
            block.broaden_operands(index)
    return block.result(), {b.var: bindings[i] for i, new in block.new.items() for b in new}


def is_broadening(value: Expr) -> bool:
    """Tell whether a call broadcasts axes to what else they may be broadcast to at run time."""
    if not isinstance(value, Call) or value.op is not _BROADCAST_TO:
        return False
    old, new = _tensor(value.args[0]), _tensor(value)
    if old is None or new is None or old.rank != new.rank:
        return False
    same = all(a == b or _may_grow(a, b) for a, b in zip(old.shape, new.shape))
    return same and old.shape != new.shape


class _Block:
    """The bindings of a block, and what takes their places."""

    def __init__(
        self,
        bindings: list[Binding],
        reads: Mapping[Var, Iterable[Var]],
        escaping: Container[Expr],
    ) -> None:
        self.bindings, self.escaping = bindings, escaping
        self.place = {binding.var: index for index, binding in enumerate(bindings)}
        self.readers: dict[Expr, int] = {}
        for binding in bindings:
            for var in reads.get(binding.var, ()):
                self.readers[var] = self.readers.get(var, 0) + 1
        self.new: dict[int, list[Binding]] = {}
        # Whether sizes are wanted that follow from what is checked, and are not greater.
        self.settling = False
        self.known = self._known_sizes()
        # What else than kernels runs may be seen: what may trap does not pass it.
        self.stops = [0]
        for binding in bindings:
            self.stops.append(self.stops[-1] + (not _is_inert(binding.value)))

    def result(self) -> list[Binding]:
        """Return the new bindings; the list that was given where nothing changed."""
        if not self.new:
            return self.bindings
        return [b for i, old in enumerate(self.bindings) for b in self.new.get(i, [old])]

    def broaden_operands(self, index: int) -> None:
        """Let what the binding at a place reads, and nobody else, have the sizes of its result."""
        call = self.current(index)
        args = list(call.args)
        of_product = _is_product(call)
        growing = _growing_weights(call) if of_product else _growing_operands(call)
        if not any(
            s and self._reaches_product(args[k], s, index, not of_product)
            for k, s in growing.items()
        ):
            return
        for number, sizes in growing.items():
            # What is computed beside a product, as a mask may be, is computed like it.
            if sizes and self._operands(args[number], sizes, index) is not None:
                args[number] = self._broadened(args[number], sizes)
        if any(a is not b for a, b in zip(args, call.args)):
            self._replace(index, self._var(index), call, args)

    def settle_weights(self, index: int) -> None:
        """Let one operand of a product have the batch of the other, where it must have it, and what
        is broadcast against others on the way be broadcast to what that tells.
        """
        call = self.current(index)
        sizes_of, part = _settled_batches(call)
        settled = {k: {0: size} for k, size in sizes_of.items()}
        self.settling = True
        args = list(call.args)
        if settled and all(
            self._grows_by_elements(args[k], s, index, part) for k, s in settled.items()
        ):
            for number, sizes in settled.items():
                args[number] = self._broadened(args[number], sizes)
            self._replace(index, self._var(index), call, args)
        self.settling = False

    def _grows_by_elements(self, value: Expr, sizes: Sizes, reader: int, part: Dim) -> bool:
        """Tell whether a value can have these sizes, and all that would be broadcast for it are
        single elements, to so many as `part`, not runs of them: `[b, 12]` is read with strides,
        `[b*12]` is not.
        """
        if self._operands(value, sizes, reader) is None:
            return False
        pending = [(value, sizes, reader)]
        while pending:
            value, sizes, reader = pending.pop()
            operands = self._operands(value, sizes, reader)
            if operands is None:
                kind = _tensor(value)
                if not all(_may_be_one(kind, k, size, part) for k, size in sizes.items()):
                    return False
                continue
            index = self.place[value] if isinstance(value, Var) else reader
            call = self.current(index)
            pending += [(call.args[k], each, index) for k, each in operands.items()]
        return True

    def _var(self, index: int) -> Var:
        return self.new[index][-1].var if index in self.new else self.bindings[index].var

    def current(self, index: int) -> Call:
        """Return the call at a place, as it is by now."""
        binding = self.new[index][-1] if index in self.new else self.bindings[index]
        assert isinstance(binding.value, Call)
        return binding.value

    # -- Which -------------------------------------------------------------------------------------

    def _reaches_product(self, start: Expr, sizes: Sizes, reader: int, by_rows: bool) -> bool:
        """Tell whether a product is behind a value; without `by_rows`, behind one that takes rows
        as a whole.
        """
        pending = [(start, sizes, by_rows)]
        while pending:
            value, wanted, by_rows = pending.pop()
            operands = self._operands(value, wanted, reader)
            index = self.place.get(value) if isinstance(value, Var) else None
            if operands is None or index is None:
                continue
            if _is_product(self.bindings[index].value):
                if by_rows:
                    return True
                continue
            call = self.current(index)
            by_rows = by_rows or trailing_axes(call) is not None
            pending += [(call.args[k], each, by_rows) for k, each in operands.items()]
        return False

    def _operands(self, value: Expr, sizes: Sizes, reader: int) -> dict[int, Sizes] | None:
        """Return which sizes operands of a value must have for it to have these; None where it
        stays as it is.
        """
        index = self.place.get(value) if isinstance(value, Var) else None
        if index is None or self.readers.get(value) != 1 or value in self.escaping:
            return None
        names = {v for size in sizes.values() for v in dim_variables(size)}
        if not names <= self.known[index] or self.stops[index] != self.stops[reader]:
            return None
        call = self.bindings[index].value
        if not isinstance(call, Call):
            return None
        call = self.current(index)
        operands = _sizes_of_operands(call, sizes, self.settling)
        return operands if operands and _is_computed_at(call, sizes, operands) else None

    # -- How ---------------------------------------------------------------------------------------

    def _broadened(self, value: Expr, sizes: Sizes) -> Expr:
        """Return a value of other sizes in the place of one that nobody else reads."""
        index = self.place.get(value) if isinstance(value, Var) else None
        operands = self._operands(value, sizes, index) if index is not None else None
        if operands is None or index is None:
            raise AssertionError("what stays as it is, its reader broadcasts")
        call = self.current(index)
        args = list(call.args)
        before = {b.var: b for b in self.new.get(index, ())[:-1]}
        for number, wanted in operands.items():
            arg = args[number]
            if self._operands(arg, wanted, index) is not None:
                args[number] = self._broadened(arg, wanted)
            else:
                old = before.pop(arg, None) if isinstance(arg, Var) else None
                new = _broadcast(arg, wanted, call, old)
                before[new.var] = new
                args[number] = new.var
        kind = _with_sizes(call, sizes)
        name = self._var(index)
        var = Var(name.name, None, span=name.span, checked_type=kind)
        self._replace(index, var, call, args, list(before.values()), kind)
        self.place[var] = index
        self.readers[var] = 1
        return var

    def _replace(
        self,
        index: int,
        var: Var,
        call: Call,
        args: Sequence[Expr],
        before: Sequence[Binding] | None = None,
        kind: TensorType | None = None,
    ) -> None:
        type_ = call.checked_type if kind is None else kind
        attrs = call.attrs
        if kind is not None and call.op is _RESHAPE and not _gives(call, args, attrs, kind):
            attrs = Attrs(attrs, newshape=kind.shape)
        new = Call(call.op, tuple(args), attrs, call.type_args, span=call.span, checked_type=type_)
        if before is None:
            before = self.new.get(index, [])[:-1]
        self.new[index] = [*before, Binding(var, new, self.bindings[index].span)]

    def _known_sizes(self) -> list[set[DimVar]]:
        """Return, for each place of the block, the symbols that tensors bound before it tell."""
        outside = {
            a
            for b in self.bindings
            if isinstance(b.value, Call)
            for a in b.value.args
            if isinstance(a, Var) and a not in self.place
        }
        known = {v for var in outside for v in _told_by(var)}
        result: list[set[DimVar]] = []
        for binding in self.bindings:
            result.append(known)
            told = set(_told_by(binding.var))
            known = known if told <= known else known | told
        return result


def _told_by(value: Expr) -> list[DimVar]:
    kind = _tensor(value)
    found = [linear_dim(d) for d in kind.shape] if kind is not None else []
    return [linear[0] for linear in found if linear is not None]


def _is_inert(value: Expr) -> bool:
    if isinstance(value, (Tuple, TupleGetItem)) or kernel_operator(value) is not None:
        return True
    return isinstance(value, Call) and is_view(value)


def _is_product(value: Expr) -> bool:
    return isinstance(value, Call) and kernel_operator(value) is not None and is_product(value)


def _is_by_element(value: Expr) -> bool:
    op = kernel_operator(value)
    return op is not None and op.fusion in _BY_ELEMENT and op is not _BROADCAST_TO


def _growing_operands(call: Call) -> dict[int, Sizes]:
    return {k: _broadcast_sizes(arg, call) for k, arg in enumerate(call.args)}


def _growing_weights(call: Call) -> dict[int, Sizes]:
    """Return the batch of the first operand of a product, where a run may broadcast it."""
    weights, result = _tensor(call.args[0]), _tensor(call)
    if weights is None or result is None or not is_batched(call):
        return {}
    batch, whole = weights.shape[0], result.shape[0]
    return {0: {0: whole}} if _may_grow(batch, whole) else {}


def _settled_batches(call: Call) -> tuple[dict[int, Dim], Dim]:
    """Return the batches that operands of a product must have, where they are others, and how many
    there are beside the heads.

    Of `broadcast(b, m)*12` and `n*12` neither can be 1, so they are equal, and what was broadcast
    to `broadcast(b, m)` can be broadcast to n. Of `broadcast(b, m)*h` and `b*h` the second is as
    the first, or does not fit.
    """
    weights, values = (_tensor(value) for value in call.args[:2])
    if weights is None or values is None or not is_batched(call):
        return {}, 1
    own, other = weights.shape[0], values.shape[0]
    match own:
        case DimExpr(((((atom, 1),), heads),)) if heads > 1:
            part = dim_floordiv(other, heads)
            is_open = isinstance(atom, DimTerm) or part == 1
            if is_open and part != symbol(atom) and dim_mod(other, heads) == 0:
                return {0: other}, part
    factor = broadcast_factor(own, other)
    return ({}, 1) if factor is None else ({0: own, 1: own}, dim_floordiv(own, factor))


def _may_be_one(kind: TensorType | None, axis: int, size: Dim, part: Dim) -> bool:
    """Tell whether an axis of a size of its own is read with strides where it is broadcast."""
    if kind is None:
        return False
    own = kind.shape[axis]
    if own in (1, size):
        return True
    is_single = isinstance(own, DimExpr) and own.variable is not None
    return is_single and (size == part or _may_grow(own, size))


def _broadcast_sizes(arg: Expr, call: Call) -> Sizes:
    """Return the axes of an operand that a run may broadcast to a size of the result."""
    old, new = _tensor(arg), _tensor(call)
    if old is None or new is None or old.rank > new.rank:
        return {}
    whole = new.shape[new.rank - old.rank :]
    return {k: b for k, (a, b) in enumerate(zip(old.shape, whole)) if _may_grow(a, b)}


def _may_grow(size: Dim, whole: Dim) -> bool:
    if size == whole or isinstance(size, int):
        return False
    return isinstance(whole, int) or is_broadcast_of(whole, size)


def _sizes_of_operands(call: Call, sizes: Sizes, settled: bool) -> dict[int, Sizes]:
    """Return the sizes of operands of which a result has these; nothing where there are none.

    Those that are `settled` are what the result must have, not what it is broadcast to.
    """
    found: dict[int, Sizes] = {}
    result = _tensor(call)
    if result is None:
        return found
    if _is_product(call):
        return _sizes_of_factors(call, sizes, result.rank, settled)
    if call.op is _TRANSPOSE:
        axes = call.attrs.get("axes") or tuple(reversed(range(result.rank)))
        assert isinstance(axes, tuple)
        return {0: {int(axes[k]) % result.rank: size for k, size in sizes.items()}}
    if is_view(call):
        return _sizes_behind(call, sizes, result, settled)
    folded = trailing_axes(call)
    if folded is not None:
        return {0: sizes} if all(axis < result.rank - folded for axis in sizes) else found
    if not _is_by_element(call):
        return found
    for number, arg in enumerate(call.args):
        kind = _tensor(arg)
        for axis, size in sizes.items():
            place = axis - result.rank + kind.rank if kind is not None else -1
            if kind is None or place < 0:
                continue
            whole, own = result.shape[axis], kind.shape[place]
            if settled and own not in (1, size):
                # Read as it is, not as what is broadcast anew to the other sizes of the result.
                found[number] = _broadcast_sizes(arg, call) | found.get(number, {}) | {place: size}
            elif own == whole and not settled:
                found.setdefault(number, {})[place] = size
    return found


def _sizes_of_factors(call: Call, sizes: Sizes, rank: int, settled: bool) -> dict[int, Sizes]:
    """Rows of a product are those of its first operand, columns those of the second."""
    found: dict[int, Sizes] = {}
    first, second, result = (_tensor(value) for value in (*call.args[:2], call))
    columns = 1 if _complete(call).get("transpose_b") else 2
    if first is None or second is None or result is None:
        return {}
    for axis, size in sizes.items():
        if is_batched(call) and axis == 0:
            for number, factor in enumerate((first, second)):
                batch = factor.shape[0]
                if settled and batch != 1:
                    # None of them can be 1, so each is as the result.
                    found.setdefault(number, {})[0] = size
                elif batch == result.shape[0] or _may_grow(batch, size):
                    found.setdefault(number, {})[0] = size
        elif axis == rank - 1:
            if not is_batched(call):
                return {}
            found.setdefault(1, {})[columns] = size
        elif first.shape[axis] == result.shape[axis]:
            found.setdefault(0, {})[axis] = size
        else:
            return {}
    return found


def _sizes_behind(call: Call, sizes: Sizes, result: TensorType, settled: bool) -> dict[int, Sizes]:
    """Axes of a view are those of its operand where all behind them are the same."""
    operand = _tensor(call.args[0])
    if operand is None or len(call.args) != 1:
        return {}
    same = 0
    for a, b in zip(reversed(operand.shape), reversed(result.shape)):
        if a != b:
            break
        same += 1
    found: Sizes = {}
    for axis, size in sizes.items():
        if axis >= result.rank - same:
            found[axis - result.rank + operand.rank] = size
            continue
        if not settled or axis != 0 or same >= operand.rank:
            return {}
        # What are broadcast are single elements, not runs of them: `[b, 12]`, not `[b*12]`.
        rest = dim_mul(size, volume(result.shape[1 : result.rank - same]))
        others = volume(operand.shape[1 : operand.rank - same])
        if others == 0 or dim_mod(rest, others) != 0:
            return {}
        found[0] = dim_floordiv(rest, others)
    return {0: found}


def _is_computed_at(call: Call, sizes: Sizes, operands: Mapping[int, Sizes]) -> bool:
    """Tell whether the rule of a call gives just these sizes for operands of those."""
    if not all(_has_named_sizes(arg) for arg in call.args):
        return False
    args = [
        Var("p", None, checked_type=_with_sizes(arg, operands.get(number, {})))
        for number, arg in enumerate(call.args)
    ]
    kind = _with_sizes(call, sizes)
    if call.op is _RESHAPE and _gives(call, args, Attrs(call.attrs, newshape=kind.shape), kind):
        return True
    return _gives(call, args, call.attrs, kind)


def _has_named_sizes(value: Expr) -> bool:
    kind = _tensor(value)
    return kind is not None and not any(isinstance(dim, AnyDim) for dim in kind.shape)


def _gives(call: Call, args: Sequence[Expr], attrs: Attrs, wanted: TensorType) -> bool:
    types = tuple(kind for arg in args if (kind := _tensor(arg)) is not None)
    assert isinstance(call.op, Operator)
    try:
        with shape_context():
            return call.op.result_type(types, attrs) == wanted
    except ShapeError:
        return False


def _broadcast(value: Expr, sizes: Sizes, reader: Call, old: Binding | None) -> Binding:
    """Return a value broadcast to some sizes; `old` is what broadcast it to others already."""
    kind = _with_sizes(value, sizes)
    attrs = Attrs(shape=kind.shape)
    if old is not None:
        assert isinstance(old.value, Call)
        value = old.value.args[0]
    call = Call(_BROADCAST_TO, (value,), attrs, span=reader.span, checked_type=kind)
    return Binding(Var("b", None, span=reader.span, checked_type=kind), call, reader.span)


def _with_sizes(value: Expr, sizes: Sizes) -> TensorType:
    kind = _tensor(value)
    assert kind is not None
    return TensorType(tuple(sizes.get(k, d) for k, d in enumerate(kind.shape)), kind.dtype)


def _complete(call: Call) -> Mapping[str, object]:
    assert isinstance(call.op, Operator)
    return call.op.complete_attrs(call.attrs)


def _tensor(value: Expr) -> TensorType | None:
    kind = value.checked_type
    return kind if isinstance(kind, TensorType) else None
