"""The row class of the operator table, and the decorators that fill its facets.

The signature of the rule is the schema: positional parameters are operands, keyword-only ones
attributes. A facet whose parameters disagree with the schema fails at import, and so does a second
definition of one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar, Union

import numpy as np

from relayvm.base.abi import MAX_RANK
from relayvm.base.diagnostics import InternalError, RelayError, error
from relayvm.base.dims import ANY, AnyDim, Dim, DimVar, dim_variables, symbol
from relayvm.base.dtypes import DType, dtype_of
from relayvm.base.shapes import ShapeError
from relayvm.ir.expr import Attrs, AttrValue, Call, Constant, Expr, Op
from relayvm.ir.types import TensorType, TupleType, Type
from relayvm.ops.narrow import apply_in_float32, touches_bfloat16
from relayvm.ops.schema import (
    ConstrainedOperand,
    check_attributes,
    check_known_operands,
    check_operands,
    read_attributes,
    read_operands,
    refuse_stored_dtypes,
)
from relayvm.ops.stored import STORING, apply_to_stored, touches_stored, with_stored_dtypes

ArrayOrTuple = Union[np.ndarray, "tuple[np.ndarray, ...]"]
F = TypeVar("F", bound=Callable[..., Any])


class Fusion(Enum):
    """How an operator may share a kernel with its neighbours, from the freest class to none."""

    ELEMENTWISE = "elementwise"
    BROADCAST = "broadcast"
    INJECTIVE = "injective"
    REDUCTION = "reduction"
    CONTRACTION = "contraction"
    OPAQUE = "opaque"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Operator(Op):
    """One row of the operator table.

    `ulp` bounds the error of one application in units in the last place of the result dtype,
    beside the reordering of a reduction (`reduction_size`). `no_gradient` is the reason why there
    is no gradient, "" where there is one. `value_operands` are those whose values decide on the
    shape of the result of a data-dependent operator; all of them where none is named.
    `value_traps` tells whether values of operands may end a run though their sizes fit; a function
    answers for operand types and attributes.
    """

    rule: Callable[..., Type] = field(default=lambda: TupleType(()), kw_only=True)
    fusion: Fusion = field(default=Fusion.OPAQUE, kw_only=True)
    has_effect: bool = field(default=False, kw_only=True)
    ulp: float = field(default=0, kw_only=True)
    no_gradient: str = field(default="", kw_only=True)
    value_operands: tuple[str, ...] = field(default=(), kw_only=True)
    value_traps: bool | Callable[..., bool] = field(default=False, kw_only=True)
    doc: str = field(default="", kw_only=True)
    facets: dict[str, Callable[..., Any]] = field(default_factory=dict, kw_only=True)

    def __reduce__(self) -> Any:
        """Return how a pickle finds the operator again; RelayError `bad-operator` if none could."""
        from relayvm.ops.pickling import reduced  # It knows the table, which is made of these.

        return reduced(self)

    def __call__(self, *args: Expr, **attrs: AttrValue) -> Call:
        """Return the expression that applies this operator."""
        return Call(self, args, Attrs(attrs))

    # -- Decorators that add a facet ------------------------------------------------------------

    def numpy(self, meaning: F) -> F:
        """Add the meaning: `(*arrays, **attrs) -> array or tuple of arrays`, exact to the dtype."""
        return self._add("numpy", meaning)

    def compute(self, definition: F) -> F:
        """Add the loop-level definition: `(*tensors, **attrs) -> Tensor or tuple of Tensors`.

        That of a data-dependent operator takes the dims of its result first: `(dims, *tensors,
        **attrs)`.
        """
        return self._add("compute", definition)

    def infer_operands(self, completion: F) -> F:
        """Add how unknown operand types (None) follow: `(*types, **attrs) -> types`."""
        return self._add("infer_operands", completion)

    def reduction_size(self, size: F) -> F:
        """Add the number of terms that one result element sums: `(*types, **attrs) -> int`."""
        return self._add("reduction_size", size)

    def row_axis(self, axis: F) -> F:
        """Add which axis of the first operand, and of the result, is one of rows: `(*types,
        **attrs) -> int or None`.

        A row of the result depends on that row of the first operand alone, and is the same however
        many there are; -1 means that an axis of rows may be put in front of both.
        """
        return self._add("row_axis", axis)

    def value_shape(self, shape: F) -> F:
        """Add the second rule of a data-dependent operator: `(*arrays, **attrs) -> dims` that the
        rule left open (`?`), in their order.

        Where the row names its `value_operands`, the others may come as types. Raises ShapeError
        `bad-value` for values that mean nothing.
        """
        return self._add("value_shape", shape)

    def value_dims(self, program: F) -> F:
        """Add the same at run time: `(*tensors, **attrs) -> rank-0 int64 Tensors`, -1 where the
        values mean nothing; or a trap that tells why, by `te.required`.

        A kernel made of them turns operand values into words; the kernel of the operator itself
        takes each word as one more scalar input that is the source of the dim variable (axis -1 of
        `dim_sources`).
        """
        return self._add("value_dims", program)

    def value_rows(self, program: F) -> F:
        """Add at run time which rows of the first operand the result is, the others being those
        behind: `(*tensors, **attrs) -> rank-0 int64 Tensor`, the first row or -1 where the result
        is something else. With it the machine makes a view of them.
        """
        return self._add("value_rows", program)

    def gradient(self, transform: F) -> F:
        """Add `(call: GradientCall, g: Expr) -> one Expr or None per operand`."""
        assert tuple(inspect.signature(transform).parameters) == ("call", "g"), self.name
        assert not self.no_gradient, f"`{self.name}` says why it has no gradient, and has one"
        return self._put("gradient", transform)

    def _add(self, facet: str, function: F) -> F:
        given = dict(inspect.signature(function).parameters)
        schema = inspect.signature(self.rule).parameters
        if facet == "compute" and self.is_data_dependent:
            given.pop("dims", None)
        same = list(given) == list(schema) and all(given[n].kind is schema[n].kind for n in schema)
        if not same:
            raise TypeError(
                f"`{self.name}.{facet}` takes {list(given)}, its schema is {list(schema)}"
            )
        return self._put(facet, function)

    def _put(self, facet: str, function: F) -> F:
        if facet in self.facets:
            raise TypeError(f"`{self.name}.{facet}` is defined twice")
        self.facets[facet] = function
        return function

    # -- Uses of the facets ---------------------------------------------------------------------

    def apply(self, facet: str, /, *args: Any, **attrs: Any) -> Any:
        """Return what a facet gives.

        Raises RelayError `bad-operator` where a row that is not of the table lacks it, or raises.
        """
        function = self.facets.get(facet)
        if function is None:
            help = f"a function under `@{self.name.split('.')[-1]}.{facet}` adds it"
            message = f"operator `{self.name}` has no `.{facet}`, which this needs"
            raise error("bad-operator", message, help=help)
        try:
            if facet in ("numpy", "value_shape") and touches_stored(args, attrs):
                result_type = self.result_type if facet == "numpy" else None
                return apply_to_stored(self.name, function, result_type, args, attrs)
            if facet in ("numpy", "value_shape") and touches_bfloat16(args, attrs):
                result_type = self.result_type if facet == "numpy" else None
                return apply_in_float32(function, result_type, args, attrs)
            return function(*args, **attrs)
        except Exception as failure:
            reason = self._failed(f"`.{facet}`", failure)
            if isinstance(reason, ShapeError) and reason is not failure:
                raise error("bad-operator", reason.message) from None
            raise reason from None

    def _told(self, failure: ShapeError) -> ShapeError:
        """Return a failure that names the operator: what checks sizes and axes does not know it."""
        if f"`{self.name}`" in failure.message:
            return failure
        return ShapeError(f"`{self.name}`: {failure.message}", failure.code)

    def _failed(self, what: str, failure: Exception) -> Exception:
        """Return what to raise instead of `failure`: the mistake of whoever wrote a row that is not
        of the table.
        """
        meant = (ShapeError, RelayError, InternalError, IndexError, MemoryError)
        if isinstance(failure, meant) or self.rule.__module__.startswith("relayvm."):
            return failure
        reason = f"{type(failure).__name__}: {failure}"
        message = f"{what} of operator `{self.name}` raised {reason}"
        return ShapeError(message, "bad-operator")

    def complete_attrs(self, attrs: Mapping[str, AttrValue]) -> dict[str, Any]:
        """Return all attributes by name, defaults filled in, values in canonical form.

        Raises ShapeError `bad-attribute`.
        """
        complete = check_attributes(self.name, self.attributes, attrs, self.ignored)
        if self.name not in STORING:
            refuse_stored_dtypes(self.name, complete)
        return complete

    def result_type(self, types: Sequence[Type], attrs: Mapping[str, AttrValue]) -> Type:
        """Return the type of a call; raises ShapeError, whose `code` tells the kind of mistake."""
        check_operands(self.name, self.constrained_operands, types)
        complete = self.complete_attrs(attrs)
        try:
            result = self.rule(*types, **complete)
        except ZeroDivisionError:
            raise ShapeError(f"a size in `{self.name}` is divided by 0") from None
        except ShapeError as failure:
            raise self._told(failure) from None
        except Exception as failure:
            raise self._failed("the rule", failure) from None
        if not isinstance(result, (TensorType, TupleType)):
            message = f"the rule of operator `{self.name}` must return a type, not {result!r}"
            raise ShapeError(message, "bad-operator")
        for tensor in result.fields if isinstance(result, TupleType) else (result,):
            if isinstance(tensor, TensorType) and not isinstance(tensor.dtype, DType):
                message = f"the rule of operator `{self.name}` gives the dtype {tensor.dtype!r}"
                raise ShapeError(message, "bad-operator")
            if isinstance(tensor, TensorType) and tensor.rank > MAX_RANK:
                message = f"the result of `{self.name}` has rank {tensor.rank}, above {MAX_RANK}"
                raise ShapeError(message, "rank-limit")
        return result

    def call_type(
        self, types: Sequence[Type], attrs: Mapping[str, AttrValue], args: Sequence[Expr]
    ) -> Type:
        """Return the type of a call; constants tell the shape where values decide on it, unless
        their values mean nothing: then the call traps.
        """
        try:
            exact = self.constant_type(types, attrs, args)
        except ShapeError as failure:
            if failure.code != "bad-value":
                raise
            exact = None
        return exact if exact is not None else self.result_type(types, attrs)

    def constant_type(
        self, types: Sequence[Type], attrs: Mapping[str, AttrValue], args: Sequence[Expr]
    ) -> Type | None:
        """Return the type of a data-dependent call of which constants tell the shape, or None.

        Raises ShapeError `bad-value` where their values mean nothing.
        """
        if not self.is_data_dependent or len(args) != len(self.operands):
            return None
        needed = self.value_operands or tuple(o.name for o in self.operands)
        values: list[Any] = []
        for operand, given, arg in zip(self.operands, types, args):
            if isinstance(arg, Constant):
                values.append(arg.data)
            elif operand.name in needed:
                return None
            else:
                values.append(given)
        return self.value_type(values, attrs)

    def complete_types(
        self, types: Sequence[Type | None], attrs: Mapping[str, AttrValue]
    ) -> tuple[Type | None, ...]:
        """Return operand types with those that are None inferred from the others where the operator
        can.

        Raises ShapeError where the others, or attributes, are none that the operator takes.
        """
        infer = self.facets.get("infer_operands")
        if infer is None or all(t is not None for t in types) or len(types) != len(self.operands):
            return tuple(types)
        check_known_operands(self.name, self.constrained_operands, types)
        complete = self.complete_attrs(attrs)
        try:
            inferred = infer(*types, **complete)
        except ZeroDivisionError:
            raise ShapeError(f"a size in `{self.name}` is divided by 0") from None
        except ShapeError as failure:
            raise self._told(failure) from None
        except Exception as failure:
            raise self._failed("`.infer_operands`", failure) from None
        for operand, known, new in zip(self.operands, types, inferred):
            if known is None and isinstance(new, TensorType):
                self._require_sizes(operand.name, new.shape)
        return tuple(known if known is not None else new for known, new in zip(types, inferred))

    def _require_sizes(self, operand: str, shape: Sequence[Dim]) -> None:
        """Raise ShapeError where attributes give a size that no operand has."""
        for axis, size in enumerate(shape):
            if isinstance(size, int) and size < 0:
                which = f"axis {axis} of `{operand}` of `{self.name}`"
                message = f"by the attributes {which} would have the size {size}"
                raise ShapeError(message, "bad-attribute")

    def evaluate(self, args: Sequence[Any], attrs: Mapping[str, AttrValue]) -> ArrayOrTuple:
        """Return the meaning of a call on numpy arrays; it never shares memory with `args`."""
        with np.errstate(all="ignore"):
            result = self.meaning(args, self.complete_attrs(attrs))
        if isinstance(result, tuple):
            return tuple(_own(r, args) for r in result)
        return _own(result, args)

    def meaning(self, args: Sequence[Any], attrs: Mapping[str, Any]) -> ArrayOrTuple:
        """Return what `.numpy` gives with all attributes; it may share memory with `args`.

        What gives no element looks at no value that could end a run.
        """
        if self.value_traps or self.value_operands:
            empty = self._empty_result(args, attrs)
            if empty is not None:
                return empty
        result: ArrayOrTuple = self.apply("numpy", *args, **attrs)
        return result

    def _empty_result(
        self, args: Sequence[Any], attrs: Mapping[str, AttrValue]
    ) -> ArrayOrTuple | None:
        """Return the results where none has an element, else None."""
        if self.is_data_dependent:
            result = self.value_type(args, attrs)
        else:
            result = self.result_type(list(map(_type_of_value, args)), attrs)
        arrays = []
        for tensor in result.fields if isinstance(result, TupleType) else (result,):
            if not isinstance(tensor, TensorType) or 0 not in tensor.shape:
                return None
            shape = tuple(d for d in tensor.shape if isinstance(d, int))
            arrays.append(np.zeros(shape, tensor.dtype.numpy))
        return tuple(arrays) if isinstance(result, TupleType) else arrays[0]

    def lower(
        self, tensors: Sequence[Any], attrs: Mapping[str, AttrValue], dims: Sequence[Dim] = ()
    ) -> Any:
        """Return the tensor expressions of a call: a Tensor or a tuple of Tensors.

        `dims` are those of the result of a data-dependent operator, see `lower_dims`.
        """
        first = (tuple(dims),) if self.is_data_dependent else ()
        return self.apply("compute", *first, *tensors, **self.complete_attrs(attrs))

    def lower_dims(self, tensors: Sequence[Any], attrs: Mapping[str, AttrValue]) -> tuple[Any, ...]:
        """Return rank-0 int64 Tensors with the dims of the result of a data-dependent operator."""
        result: tuple[Any, ...] = self.apply("value_dims", *tensors, **self.complete_attrs(attrs))
        return result

    def value_type(self, args: Sequence[Any], attrs: Mapping[str, AttrValue]) -> Type:
        """Return the type of a data-dependent call with the values of operands, or the types of
        those whose values do not matter; cheap at any size.
        """
        fresh: list[DimVar] = []
        named = [_named(a, fresh) for a in args]
        result = self.result_type([_type_of_operand(a) for a in named], attrs)
        with np.errstate(all="ignore"):
            found = iter(self.apply("value_shape", *named, **self.complete_attrs(attrs)))
        unknown = set(fresh)

        def dim(given: Dim) -> Dim:
            exact = next(found) if isinstance(given, AnyDim) else given
            return ANY if unknown.intersection(dim_variables(exact)) else exact

        def filled(tensor: Type) -> Type:
            assert isinstance(tensor, TensorType)
            return TensorType(tuple(map(dim, tensor.shape)), tensor.dtype)

        if isinstance(result, TupleType):
            return TupleType(tuple(map(filled, result.fields)))
        return filled(result)

    def traps_on_values(self, types: Sequence[Type], attrs: Mapping[str, AttrValue]) -> bool:
        """Return True if values of operands of these types may end a run."""
        if callable(self.value_traps):
            return self.value_traps(*types, **self.complete_attrs(attrs))
        return self.value_traps or self.is_data_dependent

    def axis_of_rows(self, types: Sequence[Type], attrs: Mapping[str, AttrValue]) -> int | None:
        """Return the axis of independent rows as `row_axis` says it, None where there is none."""
        if "row_axis" not in self.facets:
            return None
        axis: int | None = self.apply("row_axis", *types, **self.complete_attrs(attrs))
        return axis

    def tolerance(self, types: Sequence[Type], attrs: Mapping[str, AttrValue]) -> float:
        """Return the error bound of a float result in units in the last place.

        That of a sum counts from the greatest of 1 and the results: terms may cancel.
        """
        size = self.facets.get("reduction_size")
        if size is None:
            return self.ulp
        terms = size(*types, **self.complete_attrs(attrs))
        return self.ulp + 4 + 2 * (terms if isinstance(terms, int) else 0)

    @property
    def constrained_operands(self) -> tuple[ConstrainedOperand, ...]:
        """The operands with their constraints."""
        return self.operands  # type: ignore[return-value]

    @property
    def is_data_dependent(self) -> bool:
        """True if the shape of the result depends on the values of operands."""
        return "value_shape" in self.facets


def _named(operand: Any, fresh: list[DimVar]) -> Any:
    """Return an array as it is, and the type of an operand with a variable for each `?`."""
    if not isinstance(operand, TensorType):
        return operand
    shape = list(operand.shape)
    for axis, dim in enumerate(shape):
        if isinstance(dim, AnyDim):
            fresh.append(DimVar(f"d{len(fresh)}"))
            shape[axis] = symbol(fresh[-1])
    return TensorType(tuple(shape), operand.dtype)


def _type_of_operand(operand: Any) -> Type:
    if isinstance(operand, np.ndarray):
        return TensorType(operand.shape, dtype_of(operand.dtype))
    assert isinstance(operand, (TensorType, TupleType))
    return operand


def _type_of_value(value: Any) -> Type:
    if isinstance(value, tuple):
        return TupleType(tuple(map(_type_of_value, value)))
    array = np.asarray(value)
    return TensorType(array.shape, dtype_of(array.dtype))


def _own(result: Any, args: Sequence[Any]) -> np.ndarray:
    array = np.asarray(result)
    shares = array.base is not None or any(array is a for a in args)
    return (
        np.array(array, order="C", copy=True)
        if shares
        else np.ascontiguousarray(array).reshape(array.shape)
    )


def operator(
    name: str,
    *,
    fusion: Fusion,
    ulp: float = 0,
    no_gradient: str = "",
    has_effect: bool = False,
    ignored: tuple[str, ...] = (),
    value_operands: tuple[str, ...] = (),
    value_traps: bool | Callable[..., bool] = False,
    doc: str = "",
) -> Callable[[Callable[..., Type]], Operator]:
    """Make a row from a rule: `rule(*types, **attrs) -> Type`, whose docstring is that of the
    operator.
    """

    def decorate(rule: Callable[..., Type]) -> Operator:
        operands = read_operands(rule)
        return Operator(
            name,
            with_stored_dtypes(operands) if name in STORING else operands,
            read_attributes(rule),
            rule=rule,
            fusion=fusion,
            ulp=ulp,
            no_gradient=no_gradient,
            has_effect=has_effect,
            ignored=ignored,
            value_operands=value_operands,
            value_traps=value_traps,
            doc=inspect.cleandoc(doc or rule.__doc__ or ""),
        )

    return decorate


def table_of(*families: Sequence[Operator]) -> dict[str, Operator]:
    """Return the rows by name in alphabetical order; a name defined twice fails."""
    table: dict[str, Operator] = {}
    for row in sorted((row for family in families for row in family), key=lambda row: row.name):
        if row.name in table:
            raise TypeError(f"operator `{row.name}` is defined twice")
        table[row.name] = row
    return table


@dataclass(frozen=True, slots=True)
class GradientCall:
    """A call whose gradient is taken: operands and attributes by name, and the shared node of its
    result.

    `call.x` is the expression of operand `x`, `call.axis` the attribute `axis` (operands win).
    """

    op: Operator
    args: tuple[Expr, ...]
    attrs: Mapping[str, Any]
    types: tuple[Type, ...]
    output: Expr
    output_type: Type

    def __getattr__(self, name: str) -> Any:
        for operand, value in zip(self.op.operands, self.args):
            if operand.name == name:
                return value
        if name in self.attrs:
            return self.attrs[name]
        raise AttributeError(f"`{self.op.name}` has no operand or attribute `{name}`")

    def type_of(self, operand: str) -> TensorType:
        """Return the type of a tensor operand."""
        index = [o.name for o in self.op.operands].index(operand)
        result = self.types[index]
        assert isinstance(result, TensorType)
        return result


def gradient_call(
    op: Operator,
    args: Sequence[Expr],
    attrs: Mapping[str, AttrValue],
    output: Expr,
    types: Sequence[Type] | None = None,
    output_type: Type | None = None,
) -> GradientCall:
    """Return the view of a typed call that gradients take; types default to the `checked_type`s."""
    known = tuple(types) if types is not None else tuple(_typed(a) for a in args)
    complete = op.complete_attrs(attrs)
    return GradientCall(
        op, tuple(args), complete, known, output, output_type or op.result_type(known, attrs)
    )


def _typed(expr: Expr) -> Type:
    assert expr.checked_type is not None, "a gradient needs typed operands"
    return expr.checked_type
