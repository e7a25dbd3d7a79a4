"""Float32 programs that compute in half precision where that is known to be good enough."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from enum import IntEnum

import numpy as np

from relayvm.base.diagnostics import error
from relayvm.base.dtypes import BY_NAME, FLOAT32, DType
from relayvm.base.shapes import ShapeError
from relayvm.base.trampoline import Recursive, trampoline
from relayvm.compiler.rewriting.build import attrs_of, call, field, tuple_of, type_of, typed_call
from relayvm.ir.expr import (
    Attrs,
    Call,
    Constant,
    Expr,
    Function,
    Let,
    Tuple,
    TupleGetItem,
    Var,
)
from relayvm.ir.module import Module
from relayvm.ir.types import TensorType, TupleType, Type
from relayvm.ir.visit import (
    binders,
    built,
    children,
    global_vars,
    post_order,
    type_walk,
    with_parts,
)
from relayvm.kernels.scalar_ops import cast_array
from relayvm.ops.operator import Operator


class Category(IntEnum):
    """Whether an operator computes in the narrow dtype."""

    ALWAYS = 0  # for its speed
    FOLLOW = 1  # where its operands are narrow already
    NEVER = 2  # because it sums or grows too much


# The accumulation dtype and that of the result go with the category.
Choice = tuple[Category, DType, DType]
Choose = Callable[[Call], "Choice | None"]

_ALWAYS = """
nn.conv1d nn.conv2d nn.conv3d nn.conv1d_transpose nn.conv2d_transpose nn.conv3d_transpose nn.dense
nn.batch_matmul
"""
_FOLLOW = """
add annotation.stop_fusion argmax argmin argwhere broadcast_to_like cast cast_like clip concatenate
copy divide dyn.broadcast_to dyn.full dyn.reshape dyn.strided_slice dyn.tile expand_dims fast_erf
fast_exp fast_tanh full greater greater_equal image.resize2d less less_equal max maximum min minimum
multiply nn.adaptive_max_pool1d nn.adaptive_max_pool2d nn.adaptive_max_pool3d nn.avg_pool1d
nn.avg_pool2d nn.avg_pool3d nn.batch_flatten nn.batch_norm nn.bias_add nn.depth_to_space nn.dropout
nn.global_max_pool2d nn.leaky_relu nn.max_pool1d nn.max_pool2d nn.max_pool3d nn.pad nn.prelu nn.relu
reshape scatter_elements scatter_nd shape_of sigmoid split sqrt squeeze strided_slice subtract take
tanh tile transpose where zeros
"""
_NEVER = """
arange erf exp mean nn.adaptive_avg_pool1d nn.adaptive_avg_pool2d nn.adaptive_avg_pool3d
nn.cross_entropy nn.cross_entropy_with_logits nn.global_avg_pool2d nn.l2_normalize nn.layer_norm
nn.softmax power sum variance
"""
CATEGORIES: dict[str, Category] = {
    **dict.fromkeys(_ALWAYS.split(), Category.ALWAYS),
    **dict.fromkeys(_FOLLOW.split(), Category.FOLLOW),
    **dict.fromkeys(_NEVER.split(), Category.NEVER),
}


def to_mixed_precision(
    module: Module,
    mixed_precision_type: str = "float16",
    missing_op_mode: int = 2,
    keep_orig_output_dtype: bool = True,
    choose: Choose | None = None,
) -> Module:
    """Compute in a narrow float dtype by the categories of operators.

    `nn.dense(%x, %w)` -> `cast(nn.dense(cast(%x, dtype="float16"), cast(%w, dtype="float16"),
    out_dtype="float16"), dtype="float32")`. Only float32 becomes narrow. What goes through
    functions, branches, data and references keeps its dtype; without `keep_orig_output_dtype` the
    result of `main` may be narrow, if no function calls it.

    Operators without category follow their operands; `missing_op_mode` 0 refuses them, 1 warns of
    them. `choose` gives the category of a call, or None for that of the table. Raises RelayError
    `bad-option`.
    """
    narrow = BY_NAME.get(mixed_precision_type)
    if narrow is None or not narrow.is_float or narrow.bits > FLOAT32.bits:
        known = ", ".join(f"`{d}`" for d in BY_NAME.values() if d.is_float and d.bits < 32)
        message = f"`{mixed_precision_type}` is no narrow float dtype; known are {known}"
        raise error("bad-option", message)
    missing: Counter[str] = Counter()
    called = {name for f in module.functions.values() for name in global_vars(f)}
    functions = {}
    for name, function in module.functions.items():
        keep = keep_orig_output_dtype or name != "main" or name in called
        functions[name] = _Narrowing(function, narrow, choose, missing).rewrite(function, keep)
    _tell_missing(missing, missing_op_mode)
    return module.with_functions(functions)


def _tell_missing(missing: Counter[str], mode: int) -> None:
    if not missing or mode not in (0, 1):
        return
    names = ", ".join(f"`{name}` ({count})" for name, count in sorted(missing.items()))
    message = f"operators without a category of precision: {names}"
    if mode == 0:
        raise error("bad-option", message, help="`missing_op_mode=2` lets them follow")
    warnings.warn(message, stacklevel=3)


class _Narrowing:
    """The walk over one function: `done` maps nodes to what they become, narrow or not."""

    def __init__(
        self, root: Function, narrow: DType, choose: Choose | None, missing: Counter[str]
    ) -> None:
        self.narrow = narrow
        self.choose = choose or (lambda call: None)
        self.missing = missing
        self.done: dict[int, Expr] = {}
        self.casts: dict[tuple[int, str], Expr] = {}
        self.kept: list[Expr] = []
        self.order = list(post_order(root))
        self.params: set[int] = set()
        self.open_ends: set[int] = set()
        self.bound: dict[int, list[Var]] = {}
        self.types: dict[tuple[int, int], tuple[Type, Type, Type]] = {}
        for node in self.order:
            if isinstance(node, Let):
                self.bound.setdefault(id(node.value), []).append(node.var)
            else:
                self.params.update(map(id, binders(node)))

    def rewrite(self, root: Function, keep_output: bool) -> Function:
        """Return the function; its result keeps its dtype if `keep_output`."""
        end = root.body
        while isinstance(end, Let) and not keep_output:
            self.open_ends.add(id(end))
            end = end.body
        for node in self.order:
            if id(node) in self.done:
                continue
            if node is root and not keep_output:
                self.done[id(node)] = self.with_narrow_result(root)
                continue
            after = self.renewed(node)
            self.done[id(node)] = after
            for var in self.bound.get(id(node), ()):
                if after.checked_type == node.checked_type or isinstance(node, Function):
                    continue
                kind = trampoline(self.in_dtypes_of(var.checked_type, after.checked_type))
                self.done[id(var)] = Var(var.name, kind, span=var.span, checked_type=kind)
        result = self.done[id(root)]
        assert isinstance(result, Function)
        return result

    def in_dtypes_of(self, declared: Type | None, kind: Type | None) -> Recursive[Type | None]:
        """Return a type with the sizes that are declared and the dtypes of another."""
        if isinstance(declared, TensorType) and isinstance(kind, TensorType):
            return declared if declared.dtype is kind.dtype else replace(declared, dtype=kind.dtype)
        if not isinstance(declared, TupleType) or not isinstance(kind, TupleType):
            return declared
        key = id(declared), id(kind)
        if key not in self.types:
            fields: list[Type] = []
            for own, other in zip(declared.fields, kind.fields, strict=True):
                fields.append((yield self.in_dtypes_of(own, other)))
            # Both are kept: ids of dead ones would recur.
            self.types[key] = declared, kind, TupleType(tuple(fields))
        return self.types[key][2]

    def with_narrow_result(self, root: Function) -> Function:
        body = self.done[id(root.body)]
        if body.checked_type == root.body.checked_type:
            function = with_parts(root, self.done)
            assert isinstance(function, Function)
            return function
        return replace(root, body=body, ret_type=None, checked_type=None)

    def renewed(self, node: Expr) -> Expr:
        """Return a node with its operands replaced: operators choose their dtype, everything else
        keeps it.
        """
        match node:
            case Call() if isinstance(node.op, Operator):
                return self.call(node)
            case Tuple():
                after = with_parts(node, self.done)
                assert isinstance(after, Tuple)
                return after if after is node else tuple_of(after.fields, node.span)
            case TupleGetItem():
                whole = self.done[id(node.tuple_value)]
                return node if whole is node.tuple_value else field(whole, node.index, node.span)
            case Let():
                var = self.done.get(id(node.var), node.var)
                value, body = self.done[id(node.value)], self.done[id(node.body)]
                if id(node) not in self.open_ends:
                    body = self.cast_back(body, node.body)
                if var is node.var and value is node.value and body is node.body:
                    return node
                assert isinstance(var, Var)
                return Let(var, value, body, span=node.span, checked_type=body.checked_type)
            case _:
                return self.original(node)

    def original(self, node: Expr) -> Expr:
        """Return a node whose operands have their dtypes of before."""
        parts = children(node)
        new = tuple(self.cast_back(self.done[id(part)], part) for part in parts)
        return node if all(a is b for a, b in zip(parts, new)) else built(node, new)

    # --- operators ---------------------------------------------------------------------------

    def call(self, node: Call) -> Expr:
        """Return a call in the dtype of its category."""
        if not self.has_float32(node) or self.has_other(node):
            return self.original(node)
        category, accumulation, result = self.choice(node)
        if category is Category.FOLLOW and not self.may_follow(node):
            category = Category.NEVER
        if category is Category.NEVER:
            return self.original(node)
        narrow = tuple(self.cast_all(self.done[id(arg)]) for arg in node.args)
        assert isinstance(node.op, Operator)
        try:
            made = typed_call(node.op, narrow, self.attributes(node, accumulation), node.span)
        except ShapeError:
            return self.original(node)
        kind = made.checked_type
        if isinstance(kind, TensorType) and kind.dtype is accumulation:
            return self.cast(made, result)
        return made

    def choice(self, node: Call) -> Choice:
        chosen = self.choose(node)
        if chosen is not None:
            return chosen
        assert isinstance(node.op, Operator)
        category = CATEGORIES.get(node.op.name)
        if category is None:
            self.missing[node.op.name] += 1
            category = Category.FOLLOW
        return category, self.narrow, self.narrow

    def attributes(self, node: Call, accumulation: DType) -> Attrs:
        """Return the attributes with the dtype of the result, where it is one of them."""
        attrs = attrs_of(node)
        kind = node.checked_type
        is_wide = isinstance(kind, TensorType) and kind.dtype is FLOAT32
        if is_wide and "out_dtype" in attrs and attrs["out_dtype"] in (None, FLOAT32):
            return Attrs({**node.attrs, "out_dtype": accumulation})
        return node.attrs

    def may_follow(self, node: Call) -> bool:
        """Return True if all float operands are narrow, or can be for the asking."""
        free = True
        for arg in node.args:
            if not self.is_free(arg) and not _is_only(type_of(self.done[id(arg)]), self.narrow):
                free = False
        return free

    def is_free(self, arg: Expr) -> bool:
        return isinstance(arg, Constant) or id(arg) in self.params

    @staticmethod
    def has_float32(node: Call) -> bool:
        return any(FLOAT32 in _floats(type_of(arg)) for arg in node.args)

    @staticmethod
    def has_other(node: Call) -> bool:
        """Return True if an operand is of a float dtype that is not to be changed."""
        return any(_floats(type_of(arg)) - {FLOAT32} for arg in node.args)

    # --- casts -------------------------------------------------------------------------------

    def cast_all(self, expr: Expr) -> Expr:
        """Return an operand with its float32 parts narrow."""
        kind = type_of(expr)
        if isinstance(kind, TupleType) and FLOAT32 in _floats(kind):
            parts = [self.cast_all(_part(expr, i)) for i in range(len(kind.fields))]
            return tuple_of(parts, expr.span)
        if isinstance(kind, TensorType) and kind.dtype is FLOAT32:
            return self.cast(expr, self.narrow)
        return expr

    def cast_back(self, after: Expr, before: Expr) -> Expr:
        """Return what became of a node, in the dtypes of before."""
        if after is before or before.checked_type is None:
            return after
        return self.cast_to(after, before.checked_type)

    def cast_to(self, expr: Expr, wanted: Type) -> Expr:
        """Return an expression with the dtypes of a type; tuples may nest to any depth."""
        return trampoline(self._cast_to(expr, wanted))

    def _cast_to(self, expr: Expr, wanted: Type) -> Recursive[Expr]:
        kind = expr.checked_type
        if isinstance(kind, TupleType) and isinstance(wanted, TupleType):
            # Types of tuples are not compared: that would look at all below once at each level.
            parts = [_part(expr, i) for i in range(len(kind.fields))]
            new: list[Expr] = []
            for part, wanted_part in zip(parts, wanted.fields, strict=True):
                new.append((yield self._cast_to(part, wanted_part)))
            return expr if all(a is b for a, b in zip(parts, new)) else tuple_of(new, expr.span)
        if isinstance(kind, TensorType) and isinstance(wanted, TensorType):
            return self.cast(expr, wanted.dtype)
        return expr

    def cast(self, expr: Expr, dtype: DType) -> Expr:
        """Return a tensor in a dtype; made once, and a cast there and back is none."""
        kind = type_of(expr)
        assert isinstance(kind, TensorType)
        if kind.dtype is dtype:
            return expr
        key = (id(expr), dtype.name)
        if key not in self.casts:
            made = _cast(expr, dtype)
            self.kept += [expr, made]
            self.casts[key] = made
        return self.casts[key]


def _cast(expr: Expr, dtype: DType) -> Expr:
    if not isinstance(expr, Constant):
        return call("cast", (expr,), expr.span, dtype=dtype)
    with np.errstate(all="ignore"):
        data = cast_array(expr.data, dtype)
    return Constant(data, span=expr.span, checked_type=TensorType(data.shape, dtype))


def _part(expr: Expr, index: int) -> Expr:
    return expr.fields[index] if isinstance(expr, Tuple) else field(expr, index, expr.span)


def _floats(kind: Type) -> set[DType]:
    tensors = (part for part in type_walk(kind) if isinstance(part, TensorType))
    return {tensor.dtype for tensor in tensors if tensor.dtype.is_float}


def _is_only(kind: Type, narrow: DType) -> bool:
    return _floats(kind) <= {narrow}
