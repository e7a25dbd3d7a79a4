"""Operators over long tuples become trees of operators over short ones: kernels have few operands.

Works on one block in A-normal form, before fusion. Other operators have few operands as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from relayvm.base.dims import ANY, AnyDim, Dim, dim_add
from relayvm.compiler.transforms.blocks import Binding
from relayvm.ir.expr import Attrs, Call, Expr, Tuple, TupleGetItem, Var
from relayvm.ir.types import TensorType, TupleType, Type
from relayvm.ops import OPS
from relayvm.ops.axes import require_axis

# Loads of a joined tensor are a chain of selections as long as the tuple: short is also fast.
MAX_FIELDS = 32
_JOIN, _STACK, _PART = OPS["concatenate"], OPS["stack"], OPS["split_like"]
_SPLIT = OPS["split"]

Add = Callable[[str, Expr], Var]


def narrow_operands(bindings: list[Binding]) -> list[Binding]:
    """Return the block with calls over tuples of more than MAX_FIELDS tensors taken apart.

    `concatenate((%a, .., %z))` -> `concatenate((concatenate((%a, ..)), .., concatenate((.., %z))))`
    """
    if not any(_is_wide(binding.value) for binding in bindings):
        return bindings
    result: list[Binding] = []
    tuples: dict[Expr, Tuple] = {}
    for binding in bindings:
        value = binding.value
        if isinstance(value, Tuple):
            tuples[binding.var] = value
        if isinstance(value, Call) and _is_wide(value):
            value = _Narrower(result, tuples, value).run()
        result.append(Binding(binding.var, value, binding.span))
    return result


def chunks_of_results(value: Expr) -> Iterator[tuple[Expr, int, range]]:
    """Yield an operator for each chunk of the results of `value`: it, where the chunk begins among
    its own results, and the numbers of the chunk.

    That of a `split` has the chunk and the rest on each side, so that all together are no longer
    than the results. Any other is `value` itself.
    """
    kind = value.checked_type
    assert isinstance(kind, TupleType)
    cuts = _cuts(value) if isinstance(value, Call) and value.op is _SPLIT else None
    for start in range(0, len(kind.fields), MAX_FIELDS):
        chunk = range(start, min(start + MAX_FIELDS, len(kind.fields)))
        if cuts is None:
            yield value, start, chunk
        else:
            assert isinstance(value, Call)
            yield _split_between(value, kind, cuts, chunk), 1, chunk


def _cuts(call: Call) -> list[int] | None:
    """Return where the parts of a `split` begin and the last ends, if all sizes are known."""
    place = _split_axis(call)
    cuts = [0]
    for part in _fields(call.checked_type):
        size = part.shape[place] if isinstance(part, TensorType) else ANY
        if not isinstance(size, int):
            return None
        cuts.append(cuts[-1] + size)
    return cuts


def _split_axis(call: Call) -> int:
    axis = call.attrs.get("axis", 0)
    assert isinstance(axis, int)
    return require_axis(axis, _tensor(call.args[0]).rank)


def _split_between(call: Call, kind: TupleType, cuts: Sequence[int], chunk: range) -> Call:
    place, data = _split_axis(call), _tensor(call.args[0])
    own = tuple(cuts[chunk.start : chunk.stop + 1])

    def part(size: int) -> TensorType:
        return TensorType((*data.shape[:place], size, *data.shape[place + 1 :]), data.dtype)

    inside = kind.fields[chunk.start : chunk.stop]
    kind = TupleType((part(own[0]), *inside, part(cuts[-1] - own[-1])))
    attrs = Attrs(indices_or_sections=own, axis=place)
    return Call(_SPLIT, call.args, attrs, span=call.span, checked_type=kind)


def _is_wide(value: Expr) -> bool:
    return (
        isinstance(value, Call)
        and value.op in (_JOIN, _STACK, _PART)
        and len(_fields(value.args[-1].checked_type)) > MAX_FIELDS
    )


class _Narrower:
    """Takes one call apart; what it needs is added to the block in front of the call."""

    def __init__(self, block: list[Binding], tuples: dict[Expr, Tuple], call: Call) -> None:
        self.block = block
        self.tuples = tuples
        self.call = call

    def run(self) -> Expr:
        """Return the value that takes the call's place."""
        call = self.call
        whole = call.args[-1]
        fields = self.fields(whole)
        rank = len(_tensor(fields[0]).shape) + (call.op is _STACK)
        axis = call.attrs.get("axis", 0)
        assert isinstance(axis, int)
        place = require_axis(axis, rank)
        if call.op is _PART:
            return self.parts(call.args[0], fields, place)
        if call.op is _STACK:
            return self.joined([self.stacked(c, place) for c in _chunks(fields)], place, call)
        return self.joined(fields, place, call)

    def fields(self, whole: Expr) -> list[Expr]:
        if whole in self.tuples:
            return list(self.tuples[whole].fields)
        kinds = _fields(whole.checked_type)
        return [self.add("f", self.item(whole, i, kind)) for i, kind in enumerate(kinds)]

    def joined(self, fields: Sequence[Expr], place: int, last: Call | None = None) -> Call:
        """Return a tree of `concatenate` calls; with the type of `last` if given."""
        while len(fields) > MAX_FIELDS:
            chunks = _chunks(fields)
            fields = [c[0] if len(c) == 1 else self.add("c", self.joined(c, place)) for c in chunks]
        kinds = [_tensor(f) for f in fields]
        shape = [_known([k.shape[axis] for k in kinds]) for axis in range(kinds[0].rank)]
        shape[place] = _sum([k.shape[place] for k in kinds])
        kind = last.checked_type if last is not None else TensorType(tuple(shape), kinds[0].dtype)
        return self.call_of(_JOIN, (self.tuple(fields),), place, kind)

    def stacked(self, fields: Sequence[Expr], place: int) -> Var:
        kinds = [_tensor(f) for f in fields]
        shape = [_known([k.shape[axis] for k in kinds]) for axis in range(kinds[0].rank)]
        shape.insert(place, len(fields))
        kind = TensorType(tuple(shape), kinds[0].dtype)
        return self.add("s", self.call_of(_STACK, (self.tuple(fields),), place, kind))

    def parts(self, data: Expr, fields: Sequence[Expr], place: int) -> Tuple:
        """Cut first as chunks of `fields` are long together, then each part as its fields are."""
        chunks = _chunks(fields)
        if len(chunks) == 1:
            kinds = [self.part_kind(data, f, place) for f in fields]
            cut = self.add("p", self.cut(data, fields, kinds, place))
            return self.tuple_value(
                [self.add("f", self.item(cut, i, k)) for i, k in enumerate(kinds)]
            )
        lengths = [self.add("c", self.joined(chunk, place)) for chunk in chunks]
        outer = self.parts(data, lengths, place)
        found: list[Expr] = []
        for part, chunk in zip(outer.fields, chunks):
            found += self.parts(part, chunk, place).fields
        return Tuple(tuple(found), span=self.call.span, checked_type=self.call.checked_type)

    def cut(self, data: Expr, fields: Sequence[Expr], kinds: Sequence[Type], place: int) -> Call:
        like = self.tuple(fields)
        return self.call_of(_PART, (data, like), place, TupleType(tuple(kinds)))

    def part_kind(self, data: Expr, like: Expr, place: int) -> TensorType:
        kind = _tensor(data)
        size = _tensor(like).shape[place]
        return TensorType((*kind.shape[:place], size, *kind.shape[place + 1 :]), kind.dtype)

    # -- Pieces ------------------------------------------------------------------------------------

    def add(self, name: str, value: Expr) -> Var:
        kind = value.checked_type
        var = Var(name, kind, span=self.call.span, checked_type=kind)
        self.block.append(Binding(var, value, self.call.span))
        return var

    def tuple(self, fields: Sequence[Expr]) -> Var:
        return self.add("t", self.tuple_value(fields))

    def tuple_value(self, fields: Sequence[Expr]) -> Tuple:
        kind = TupleType(tuple(_tensor(f) for f in fields))
        return Tuple(tuple(fields), span=self.call.span, checked_type=kind)

    def item(self, whole: Expr, index: int, kind: Type) -> TupleGetItem:
        return TupleGetItem(whole, index, span=self.call.span, checked_type=kind)

    def call_of(self, op: Expr, args: Sequence[Expr], place: int, kind: Type | None) -> Call:
        attrs = Attrs(axis=place)
        return Call(op, tuple(args), attrs, span=self.call.span, checked_type=kind)


def _chunks(fields: Sequence[Expr]) -> list[list[Expr]]:
    return [list(fields[i : i + MAX_FIELDS]) for i in range(0, len(fields), MAX_FIELDS)]


def _fields(kind: Type | None) -> Sequence[Type]:
    return kind.fields if isinstance(kind, TupleType) else ()


def _tensor(value: Expr) -> TensorType:
    kind = value.checked_type
    assert isinstance(kind, TensorType)
    return kind


def _known(dims: Sequence[Dim]) -> Dim:
    """Return a dim that is known among dims that must agree; the kernel compares them."""
    return next((d for d in dims if not isinstance(d, AnyDim)), ANY)


def _sum(dims: Sequence[Dim]) -> Dim:
    total: Dim = 0
    for dim in dims:
        total = ANY if isinstance(total, AnyDim) or isinstance(dim, AnyDim) else dim_add(total, dim)
    return total
