"""Operands of contractions: copied with the reduced axis last, where they are reread.

`sum(f(x)[m, k] * w[k, n])` -> `a[m, k] = f(x)[m, k]`, `b[n, k] = w[k, n]`, `sum(a[m, k] * b[n,
k])`: values that are not a plain run of memory are computed once, not once for each result.
"""

from __future__ import annotations

from relayvm.base.abi import Access
from relayvm.base.dims import Dim, dim_mul
from relayvm.kernels import compute as c
from relayvm.kernels import loops as n
from relayvm.kernels.lower import Computation, dim_names
from relayvm.kernels.schedules.elementwise import is_small
from relayvm.kernels.schedules.emit import (
    CannotVectorise,
    Context,
    Emitter,
    Frame,
    Names,
    Reduction,
)
from relayvm.kernels.schedules.plan import body_of, has_reduction, nodes, topological

MIN_REUSE = 6


def stage_operands(
    computation: Computation, outputs: tuple[c.Tensor, ...]
) -> tuple[tuple[c.Tensor, ...], frozenset[c.Tensor]]:
    """Return outputs of the same values whose contractions read along memory, and the copies."""
    order = topological(outputs)
    copies: list[c.Tensor] = []
    context = _trial_context(computation, order)
    replaced: dict[c.Tensor, c.Tensor] = {}
    for tensor in order:
        if not isinstance(tensor.op, c.Compute):
            continue
        body = _Rebuild(context, tensor, replaced, copies).expr(tensor.op.body)
        if body is not tensor.op.body:
            new = c.Tensor(tensor.name, tensor.shape, tensor.dtype, c.Compute(tensor.op.axes, body))
            replaced[tensor] = new
            if tensor in context.buffers:
                context.buffers[new] = context.buffers[tensor]
    return tuple(replaced.get(t, t) for t in outputs), frozenset(copies)


def _trial_context(computation: Computation, order: list[c.Tensor]) -> Context:
    """Give every tensor that may be kept a buffer, to see how it would be read."""
    context = Context(Names(), dim_names(computation.dim_vars), {})
    for tensor in order:
        if not isinstance(tensor.op, c.Compute) or has_reduction(tensor):
            shape = tuple(context.dim(d) for d in tensor.shape)
            context.buffers[tensor] = n.Buffer(
                f"t{len(context.buffers)}", tensor.dtype, shape, "input"
            )
    for number in computation.strided:
        old = context.buffers.get(computation.inputs[number])
        if old is not None:
            strided = n.Buffer(old.name, old.dtype, old.shape, "input", Access.STRIDED)
            context.buffers[computation.inputs[number]] = strided
    if computation.strided:
        context.broadcast_along(order)
    return context


class _Rebuild:
    """Rewrites the body of one tensor: replaced tensors, and factors of contractions."""

    def __init__(
        self,
        context: Context,
        tensor: c.Tensor,
        replaced: dict[c.Tensor, c.Tensor],
        copies: list[c.Tensor],
    ) -> None:
        self.copies = copies
        self.context, self.tensor, self.replaced = context, tensor, replaced
        self.memo: dict[int, c.ScalarExpr] = {}

    def expr(self, expr: c.ScalarExpr) -> c.ScalarExpr:
        """Return the rewritten expression; the same object where nothing changed."""
        if id(expr) not in self.memo:
            self.memo[id(expr)] = self._rewritten(expr)
        return self.memo[id(expr)]

    def _rewritten(self, expr: c.ScalarExpr) -> c.ScalarExpr:
        match expr:
            case c.TensorLoad():
                indices = self._all(expr.indices)
                tensor = self.replaced.get(expr.tensor, expr.tensor)
                if tensor is expr.tensor and indices is expr.indices:
                    return expr
                return c.TensorLoad(expr.dtype, tensor, indices)
            case c.Scalar():
                args = self._all(expr.args)
                return expr if args is expr.args else c.Scalar(expr.dtype, expr.name, args)
            case c.Cast():
                value = self.expr(expr.value)
                return expr if value is expr.value else c.Cast(expr.dtype, value)
            case c.IndexOf():
                value = self.expr(expr.value)
                if value is expr.value:
                    return expr
                return c.IndexOf(expr.dtype, value, expr.extent, expr.mode)
            case c.Select():
                old = (expr.condition, expr.a, expr.b)
                new = self._all(old)
                return expr if new is old else c.Select(expr.dtype, *new)
            case c.Reduce():
                body = self._reduced(expr, self.expr(expr.body))
                return (
                    expr if body is expr.body else c.Reduce(expr.dtype, expr.kind, expr.axes, body)
                )
            case c.ArgReduce():
                body = self.expr(expr.body)
                if body is expr.body:
                    return expr
                return c.ArgReduce(expr.dtype, expr.kind, expr.axes, body, expr.select_last_index)
            case _:
                return expr

    def _all(self, exprs: tuple[c.ScalarExpr, ...]) -> tuple[c.ScalarExpr, ...]:
        new = tuple(self.expr(e) for e in exprs)
        return exprs if all(a is b for a, b in zip(new, exprs)) else new

    def _reduced(self, reduction: c.Reduce, body: c.ScalarExpr) -> c.ScalarExpr:
        axes = [a for a in reduction.axes if a.extent != 1]
        product = isinstance(body, c.Scalar) and body.name == "multiply"
        if reduction.kind != "sum" or len(axes) != 1 or not product:
            return body
        assert isinstance(body, c.Scalar)
        units = tuple(a for a in reduction.axes if a.extent == 1)
        if self._runs_in_columns(body, axes[0]):
            return body
        args = tuple(self._factor(f, axes[0], units) for f in body.args)
        if all(a is b for a, b in zip(args, body.args)):
            return body
        return c.Scalar(body.dtype, body.name, args)

    def _factor(
        self, factor: c.ScalarExpr, axis: c.IndexVar, units: tuple[c.IndexVar, ...]
    ) -> c.ScalarExpr:
        used = {id(m) for m in nodes(factor) if isinstance(m, c.IndexVar)}
        if id(axis) not in used:
            return factor
        own = body_of(self.tensor).axes
        reuse: Dim = 1
        for other in own:
            if id(other) not in used:
                reuse = dim_mul(reuse, other.extent)
        if isinstance(reuse, int) and reuse < MIN_REUSE:
            return factor
        if self._is_run(factor, axis):
            return factor
        axes = (*(a for a in (*own, *units) if id(a) in used), axis)
        shape = tuple(a.extent for a in axes)
        copy = c.Tensor("operand", shape, factor.dtype, c.Compute(axes, factor))
        self.context.buffers[copy] = n.Buffer(
            f"t{len(self.context.buffers)}",
            copy.dtype,
            tuple(self.context.dim(d) for d in shape),
            "scratch",
        )
        self.copies.append(copy)
        return c.TensorLoad(copy.dtype, copy, axes)

    def _runs_in_columns(self, body: c.Scalar, axis: c.IndexVar) -> bool:
        """Return whether the factors are loads, one of which runs along the result's last axis.

        Then the columns of the result can be lanes, and the other factor is read one by one.
        """
        own = [a for a in body_of(self.tensor).axes if a.extent != 1]
        if not own or is_small(self.context.dim(own[-1].extent)):
            return False
        if all(self._is_run(f, axis) for f in body.args):
            return False
        column = own[-1]
        with_column = [f for f in body.args if any(m is column for m in nodes(f))]
        others = [f for f in body.args if f not in with_column]
        return (
            len(with_column) == 1
            and self._is_run(with_column[0], column)
            and all(self._load(f) is not None for f in others)
        )

    def _is_run(self, factor: c.ScalarExpr, axis: c.IndexVar) -> bool:
        """Return whether a factor is one load that runs along memory with an axis."""
        load = self._load(factor)
        if load is None or load[0].buffer.access is not Access.DENSE:
            return False
        value, frame = load
        *outer, last = value.indices
        k = frame.get(axis)
        return k is not None and last == k and not any(_mentions(i, k) for i in outer)

    def _load(self, factor: c.ScalarExpr) -> tuple[n.Load, Frame] | None:
        """Return the load that is all of a factor, and what its axes stand for."""
        frame: Frame = {}
        emitter = Emitter(self.context, _unknown_reduction)
        for m in nodes(factor):
            if isinstance(m, c.IndexVar):
                var = n.Var(f"p{len(frame)}")
                frame[m] = var
                emitter.prover.add_range(var, n.const(0), self.context.dim(m.extent))
        try:
            value = emitter.value(factor, frame)
        except CannotVectorise:
            return None
        if not isinstance(value, n.Load) or value.mask is not None or not value.indices:
            return None
        return value, frame


def _unknown_reduction(emitter: Emitter, reduction: Reduction, frame: Frame) -> n.Expr:
    raise CannotVectorise("a reduction inside a factor")


def _mentions(expr: n.Expr, var: n.Expr) -> bool:
    return expr == var or any(_mentions(e, var) for e in n.children(expr))
