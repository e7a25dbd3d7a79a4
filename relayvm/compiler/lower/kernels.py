"""From primitive functions to kernel requests: every unknown size gets a variable that the machine
reads.

A size comes from an axis of an input where it stands alone, otherwise from a scalar input added
for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import Enum, auto

from relayvm.base.abi import DimCheck, Kernel, KernelSignature
from relayvm.base.diagnostics import InternalError, RelayError, error
from relayvm.base.dims import (
    ANY,
    AnyDim,
    Dim,
    DimExpr,
    DimTerm,
    DimVar,
    dim_broadcast,
    dim_floordiv,
    dim_mod,
    dim_substitute,
    dim_variables,
    greatest_factor,
    greatest_number,
    linear_dim,
    symbol,
)
from relayvm.base.dtypes import INT64, number_of
from relayvm.base.shapes import Check, shape_context
from relayvm.base.source import Span
from relayvm.base.target import Target
from relayvm.compiler.lower.words import is_view
from relayvm.compiler.transforms.blocks import split_block
from relayvm.ir.equal import structural_equal, structural_hash
from relayvm.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, Var
from relayvm.ir.types import TensorType, TupleType, Type
from relayvm.ir.visit import attr_variables, free_vars
from relayvm.kernels.build import KernelRequest, build_kernels
from relayvm.kernels.compute import Placeholder, Tensor, compute, const, placeholder
from relayvm.ops import OPS
from relayvm.ops.custom import at, check_computed
from relayvm.ops.operator import Operator
from relayvm.ops.tracing import check_equation, substitute_dims, tensors_of

MAX_NAME = 60


@dataclass(frozen=True, slots=True)
class KernelPlan:
    """A kernel's number, and the dims whose values follow the operands as extra scalar inputs."""

    number: int
    extra_dims: tuple[Dim, ...] = ()


@dataclass(frozen=True, slots=True)
class DataDependentPlan:
    """The kernels of an operator whose result's dims depend on operand values.

    `sizes` turns the operands into words: the `num_dims` dims, and with `tells_rows` the first row
    of the operand that the result is, or -1. `body` takes operands and dims.
    """

    sizes: KernelPlan | None
    body: KernelPlan | None
    num_dims: int
    tells_rows: bool


@dataclass(slots=True)
class KernelTable:
    """The kernels of one program; equal primitive functions share one."""

    requests: list[KernelRequest] = field(default_factory=list)
    _plans: dict[int, list[tuple[Function, KernelPlan]]] = field(default_factory=dict)
    _names: dict[str, int] = field(default_factory=dict)

    def plan(self, function: Function) -> KernelPlan:
        """Return the kernel of a primitive function."""
        known = self._plans.setdefault(structural_hash(function), [])
        for other, plan in known:
            if structural_equal(function, other):
                return plan
        request, extra = _request_of(function, self._name(_operators_of(function)))
        plan = KernelPlan(self._add(request), extra)
        known.append((function, plan))
        return plan

    def plan_data_dependent(self, call: Call, view: bool) -> DataDependentPlan:
        """Return the kernels of an operator whose result's dims depend on operand values; only that
        of the dims where the result is a `view`.
        """
        op = call.op
        assert isinstance(op, Operator)
        name = self._name([op.name])
        kinds = [_without_symbols(_tensor_type(a.checked_type)) for a in call.args]
        tracers = []
        for _ in range(2):
            tracer = _Tracer(name)
            for kind in kinds:
                tracer.input(kind)
            with shape_context() as context:
                promised = op.result_type(tuple(map(_type_of, tracer.inputs)), call.attrs)
            _require_numbers(op, promised, context.checks, call.span)
            tracer.require(context.checks, op.name)
            tracers.append(tracer.agreed() or tracer)
        first, second = tracers
        attrs = op.complete_attrs(call.attrs)
        sizes = op.apply("value_dims", *first.inputs, **attrs)
        words = list(sizes)
        if sizes and "value_rows" in op.facets:
            words.append(op.apply("value_rows", *first.inputs, **attrs))
        body = None
        if not view:
            operands = tuple(second.inputs)
            dims = tuple(second.scalar_dim() for _ in sizes)
            result = op.lower(operands, call.attrs, dims)
            outputs = tuple(map(_as_output, result if isinstance(result, tuple) else (result,)))
            body = KernelPlan(self._add(second.request(name, outputs)))
        lengths = None
        if words:
            lengths = KernelPlan(self._add(first.request(f"{name}_dims", tuple(words))))
        return DataDependentPlan(lengths, body, len(sizes), len(words) > len(sizes))

    def build(self, target: Target, opt_level: int, native: bool) -> list[Kernel]:
        """Return the built kernels, in the order of their numbers."""
        return build_kernels(self.requests, target, opt_level=opt_level, native=native)

    def _add(self, request: KernelRequest) -> int:
        self.requests.append(request)
        return len(self.requests) - 1

    def _name(self, operators: Sequence[str]) -> str:
        stem = "_".join(o.replace(".", "_") for o in operators)[:MAX_NAME].rstrip("_") or "kernel"
        count = self._names.get(stem, 0)
        self._names[stem] = count + 1
        return f"{stem}_{count}" if count else stem


def signatures_of(kernels: Sequence[Kernel]) -> list[KernelSignature]:
    """Return the signatures by kernel number."""
    return [kernel.signature for kernel in kernels]


def _operators_of(function: Function) -> list[str]:
    bindings, tail = split_block(function.body)
    uses = _uses_in(function)
    values = [b.value for b in bindings if uses[b.var] is not _Use.UNREAD] + [tail]
    return [v.op.name for v in values if isinstance(v, Call) and isinstance(v.op, Operator)]


def _tensor_type(kind: Type | None) -> TensorType:
    if not isinstance(kind, TensorType):
        raise InternalError(f"a kernel operand has type {kind}")
    return kind


def _without_symbols(kind: TensorType) -> TensorType:
    """Return the type with `?` for each size that is not known: each is read from its axis."""
    return TensorType(tuple(d if isinstance(d, int) else ANY for d in kind.shape), kind.dtype)


_MOST_NUMBER = 1 << 62


class _Use(Enum):
    """What a call in a primitive function is for: a part of its value; a value that nothing reads,
    there for what its rule compares; or to broadcast an operand in another place than the program.
    """

    VALUE = auto()
    UNREAD = auto()
    BROADENING = auto()


class _Tracer:
    """Collects inputs, sizes and checks of one kernel."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.inputs: list[Tensor] = []
        self.sources: dict[DimVar, tuple[int, int]] = {}
        self.checks: list[DimCheck] = []
        self.late: list[DimCheck] = []
        self.broadcast: set[Dim] = set()
        self.extra: list[Dim] = []
        self.equal: list[tuple[Dim, Dim]] = []
        self.renamed: dict[DimVar, Dim] = {}

    def input(self, kind: TensorType, named: dict[Dim, Dim] | None = None) -> Tensor:
        """Add an input; every `?` becomes a fresh variable, and so does a dim whose parts are
        unknown.
        """
        shape: list[Dim] = []
        index = len(self.inputs)
        for axis, dim in enumerate(kind.shape):
            own = dim
            if isinstance(dim, AnyDim):
                own = symbol(DimVar(f"d{index}_{axis}"))
            elif isinstance(dim, DimExpr) and named is not None and dim in named:
                own = named[dim]
            variable = own.variable if isinstance(own, DimExpr) else None
            if variable is not None:
                self.sources.setdefault(variable, (index, axis))
            shape.append(own)
        tensor = placeholder(f"p{index}", tuple(shape), kind.dtype)
        self.inputs.append(tensor)
        return tensor

    def scalar_dim(self) -> Dim:
        """Add a scalar input whose value is a size, and return that size."""
        variable = DimVar(f"n{len(self.inputs)}")
        self.sources[variable] = (len(self.inputs), -1)
        self.inputs.append(placeholder(f"p{len(self.inputs)}", (), INT64))
        return symbol(variable)

    def require(self, checks: Sequence[Check], operator: str, use: _Use = _Use.VALUE) -> None:
        """Add what must hold before the kernel runs, as the rule of `operator` says. What nothing
        reads says nothing of how the operands lie; what broadens is compared last.
        """
        for check in checks:
            a, b = check_equation(check)
            # What a rule says of sizes need not say whose rule it is.
            named = f"`{operator}`" in check.what
            row = DimCheck(a, b, check.what if named else f"`{operator}`: {check.what}")
            (self.late if use is _Use.BROADENING else self.checks).append(row)
            if use is _Use.UNREAD:
                continue
            if not check.broadcast:
                self.equal.append((a, b))
            else:
                whole = dim_broadcast(check.a, check.b)
                self.broadcast.update(d for d in (check.a, check.b) if d != whole)

    def agreed(self) -> _Tracer | None:
        """Return a tracer of the same inputs and checks in whose shapes sizes are one that the
        checks say are equal; None where no check does.

        A nest over them needs no masks where they differ, for which it would never run.
        """
        renamed = _one_for_each(self.equal, self.broadcast)
        if not renamed:
            return None
        result = _Tracer(self.name)
        for tensor in self.inputs:
            shape = tuple(dim_substitute(d, renamed) for d in tensor.shape)
            result.inputs.append(placeholder(tensor.name, shape, tensor.dtype))
        result.sources, result.checks = dict(self.sources), list(self.checks)
        result.late = list(self.late)
        result.broadcast = {dim_substitute(d, renamed) for d in self.broadcast}
        result.extra = list(self.extra)
        result.renamed = renamed
        return result

    def request(self, name: str, outputs: tuple[Tensor, ...]) -> KernelRequest:
        mentioned = [v for t in (*self.inputs, *outputs) for d in t.shape for v in dim_variables(d)]
        checks: dict[tuple[Dim, Dim], DimCheck] = {}
        for check in (*self.checks, *self.late):
            checks.setdefault((check.a, check.b), check)
        mentioned += [v for c in checks.values() for d in (c.a, c.b) for v in dim_variables(d)]
        for variable in dict.fromkeys(mentioned):
            if variable not in self.sources:
                self.sources[variable] = (len(self.inputs), -1)
                self.inputs.append(placeholder(f"p{len(self.inputs)}", (), INT64))
                self.extra.append(symbol(variable))
        strided = frozenset(
            index
            for index, tensor in enumerate(self.inputs)
            if any(d in self.broadcast for d in tensor.shape)
        )
        return KernelRequest(
            name=name,
            inputs=tuple(self.inputs),
            outputs=outputs,
            dim_sources=tuple((v, i, axis) for v, (i, axis) in self.sources.items()),
            checks=tuple(checks.values()),
            strided=strided,
        )


def _request_of(function: Function, name: str) -> tuple[KernelRequest, tuple[Dim, ...]]:
    tracer = _Tracer(name)
    kinds = [_tensor_type(p.checked_type or p.type_annotation) for p in function.params]
    named = _name_composites(kinds, function)
    for kind in kinds:
        tracer.input(kind, named)
    result = _results(function, tracer)
    agreed = tracer.agreed()
    if agreed is not None:
        tracer, result = agreed, _results(function, agreed)
    outputs = result if isinstance(result, tuple) else (result,)
    outputs = tuple(_as_output(o) for o in outputs)
    return tracer.request(name, outputs), tuple(tracer.extra)


def _results(function: Function, tracer: _Tracer) -> object:
    """Return what a primitive function computes of the tracer's inputs."""
    values: dict[Expr, object] = dict(zip(function.params, tracer.inputs))
    bindings, tail = split_block(function.body)
    uses = _uses_in(function)
    for binding in bindings:
        values[binding.var] = _evaluate(binding.value, values, tracer, uses[binding.var])
    return _evaluate(tail, values, tracer)


def _uses_in(function: Function) -> dict[Var, _Use]:
    """Return what the bindings of a primitive function are for."""
    bindings, tail = split_block(function.body)
    read, by_unread = set(free_vars(tail)), set[Var]()
    for binding in reversed(bindings):
        (read if binding.var in read else by_unread).update(free_vars(binding.value))
    uses: dict[Var, _Use] = {}
    for binding in bindings:
        uses[binding.var] = _Use.VALUE if binding.var in read else _Use.UNREAD
        broadcasts = isinstance(binding.value, Call) and binding.value.op is OPS["broadcast_to"]
        if broadcasts and by_unread and binding.var in read - by_unread:
            uses[binding.var] = _Use.BROADENING
    return uses


def _one_for_each(
    equal: Sequence[tuple[Dim, Dim]], broadcast: AbstractSet[Dim]
) -> dict[DimVar, Dim]:
    """Return for each variable that equations decide what it is equal to, with no such variable in
    it; those of sizes that are broadcast, which may be 1 where others are not, are left alone.
    """
    kept = {v for d in broadcast for v in dim_variables(d)}
    found: dict[DimVar, Dim] = {}
    for pair in equal:
        a, b = _without_factor(*(dim_substitute(d, found) for d in pair))
        for left, right in ((b, a), (a, b)):
            variable = left.variable if isinstance(left, DimExpr) else None
            others = set(dim_variables(right))
            if variable is None or variable in others or variable in kept:
                continue
            if not kept.isdisjoint(others) and not _is_broadcast(right):
                continue
            found = {v: dim_substitute(d, {variable: right}) for v, d in found.items()}
            found[variable] = right
            break
    return found


def _without_factor(a: Dim, b: Dim) -> tuple[Dim, Dim]:
    """Return what is equal where `a` and `b` are: m and n for `m*12` and `n*12`."""
    linear = linear_dim(a)
    if linear is None or linear[1] == 1 or linear[2] or dim_mod(b, linear[1]) != 0:
        return a, b
    return symbol(linear[0]), dim_floordiv(b, linear[1])


def _is_broadcast(dim: Dim) -> bool:
    """Tell whether a size is what others are broadcast to: what has it is not broadcast itself."""
    match dim:
        case DimExpr(((((DimTerm("broadcast"), 1),), 1),)):
            return True
    return False


def _name_composites(kinds: Sequence[TensorType], function: Function) -> dict[Dim, Dim]:
    """Give a variable of its own to each dim like `n*2` whose variables neither an axis supplies
    nor an attribute has.
    """
    alone = {d.variable for k in kinds for d in k.shape if isinstance(d, DimExpr) and d.variable}
    bindings, tail = split_block(function.body)
    calls = [e for e in (*(b.value for b in bindings), tail) if isinstance(e, Call)]
    alone |= {v for c in calls for a in c.attrs.values() for v in attr_variables(a)}
    if any(is_view(c) for c in calls):
        # What a reshape makes of `b*12` is told by b.
        linear = [linear_dim(d) for k in kinds for d in k.shape]
        alone |= {found[0] for found in linear if found is not None and found[2] == 0}
    named: dict[Dim, Dim] = {}
    for kind in kinds:
        for dim in kind.shape:
            known = all(v in alone for v in dim_variables(dim))
            if isinstance(dim, DimExpr) and not known and dim not in named:
                named[dim] = symbol(DimVar(f"c{len(named)}"))
    return named


def _as_output(value: object) -> Tensor:
    """Return a tensor that the kernel computes: an output is never an input itself."""
    assert isinstance(value, Tensor)
    if isinstance(value.op, Placeholder):
        return compute(value.shape, lambda *i: value[i], "copy")
    return value


def _evaluate(
    value: Expr, values: dict[Expr, object], tracer: _Tracer, use: _Use = _Use.VALUE
) -> object:
    match value:
        case Var():
            return values[value]
        case Constant():
            item = number_of(value.data)
            dtype = _tensor_type(value.checked_type).dtype
            return compute((), lambda: const(item, dtype), "constant")
        case Tuple():
            return tuple(_evaluate(f, values, tracer) for f in value.fields)
        case TupleGetItem():
            whole = _evaluate(value.tuple_value, values, tracer)
            assert isinstance(whole, tuple)
            return whole[value.index]
        case Call() if isinstance(value.op, Operator):
            args = [_evaluate(a, values, tracer) for a in value.args]
            return _apply(value.op, args, value, tracer, use)
        case _:
            raise InternalError(f"{type(value).__name__} in a primitive function")


def _apply(op: Operator, args: Sequence[object], call: Call, tracer: _Tracer, use: _Use) -> object:
    attrs = {name: substitute_dims(v, tracer.renamed) for name, v in call.attrs.items()}
    with shape_context() as context:
        promised = op.result_type(tuple(_type_of(a) for a in args), attrs)
    _require_numbers(op, promised, context.checks, call.span)
    tracer.require(context.checks, op.name, use)
    try:
        return check_computed(op, promised, op.apply("compute", *args, **op.complete_attrs(attrs)))
    except RelayError as failure:
        raise at(failure, call.span) from None


def _require_numbers(
    op: Operator, result: Type, checks: Sequence[Check], span: Span | None
) -> None:
    """Raise RelayError `size-overflow` where sizes are computed with numbers that no size has."""
    compared = [dim for check in checks for dim in (check.a, check.b)]
    greatest = max((greatest_number(dim) for dim in compared), default=0)
    for tensor in tensors_of(result):
        factors = tensor.dtype.itemsize_bytes
        for dim in tensor.shape:
            greatest = max(greatest, greatest_number(dim))
            factors *= max(1, greatest_factor(dim))
        greatest = max(greatest, factors)
    if greatest > _MOST_NUMBER:
        message = f"sizes of `{op.name}` are computed with numbers above 2^62"
        raise error("size-overflow", message, span)


def _type_of(value: object) -> Type:
    if isinstance(value, tuple):
        return TupleType(tuple(_type_of(v) for v in value))
    assert isinstance(value, Tensor)
    return TensorType(value.shape, value.dtype)
