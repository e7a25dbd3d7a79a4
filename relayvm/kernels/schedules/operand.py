"""Operands of contractions: copied with the reduced axis last, where they are reread.

`sum(f(x)[m, k] * w[k, n])` -> `a[m, k] = f(x)[m, k]`, `b[n, k] = w[k, n]`, `sum(a[m, k] * b[n,
k])`: values that are not a plain run of memory are computed once, not once for each result.
"""

from __future__ import annotations

from relayvm.base.abi import Access
from relayvm.base.dims import Dim, dim_mul
from relayvm.base.dtypes import INT8, INT32, UINT8
from relayvm.kernels import compute as c
from relayvm.kernels import loops as n
from relayvm.kernels.index import simplify as s
from relayvm.kernels.index.prover import broadcast_parts
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
from relayvm.kernels.schedules.packs import Packed, packed
from relayvm.kernels.schedules.plan import (
    body_of,
    has_reduction,
    nodes,
    operands,
    topological,
    with_operands,
)
from relayvm.kernels.schedules.reduction import narrow, narrower, widened

MIN_REUSE = 6
# What changes the sign of bytes.
MOVES = ("bits_as_", "bitwise_xor")
FAR_ROWS = 32
FAR_BYTES = 6 << 20
# So many uses of a narrow float pay for memory that holds it as float32: what was read from the
# cache as two bytes is written and read as four, from further away.
MANY_USES = 512


def stage_operands(
    computation: Computation, outputs: tuple[c.Tensor, ...], dots: str = ""
) -> tuple[tuple[c.Tensor, ...], frozenset[c.Tensor]]:
    """Return outputs of the same values whose contractions read along memory, and the copies.

    `dots` is what the target has for sums of small integers, see `machine.dot_kind`.
    """
    order = topological(outputs)
    copies: list[c.Tensor] = []
    context = _trial_context(computation, order)
    context.dots = dots
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
                parts = operands(expr)
                if self._all(parts) is parts:
                    return expr
                return with_operands(expr, self.expr)
            case c.Select():
                old = (expr.condition, expr.a, expr.b)
                new = self._all(old)
                return expr if new is old else c.Select(expr.dtype, *new)
            case c.Reduce():
                return self._reduce(expr, self.expr(expr.body))
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

    def _reduce(self, reduction: c.Reduce, body: c.ScalarExpr) -> c.ScalarExpr:
        axes = [a for a in reduction.axes if a.extent != 1]
        correction: c.ScalarExpr | None = None
        if reduction.kind == "sum":
            body = _through(body)
        same = c.Reduce(reduction.dtype, reduction.kind, reduction.axes, body)
        found = packed(same, self.context.dots)
        if found is not None:
            copied = self._with_packs(same, found)
            if copied is None:
                return reduction if body is reduction.body else same
            return copied
        if reduction.kind == "sum" and len(axes) == 1 and isinstance(body, c.Scalar):
            units = tuple(a for a in reduction.axes if a.extent == 1)
            if body.name == "multiply":
                args, correction = self._factors(reduction, body, axes[0], units)
                if any(a is not b for a, b in zip(args, body.args)):
                    body = c.Scalar(body.dtype, body.name, args)
        if body is reduction.body:
            return reduction
        result = c.Reduce(reduction.dtype, reduction.kind, reduction.axes, body)
        return result if correction is None else result + correction

    def _factors(
        self,
        reduction: c.Reduce,
        body: c.Scalar,
        axis: c.IndexVar,
        units: tuple[c.IndexVar, ...],
    ) -> tuple[tuple[c.ScalarExpr, ...], c.ScalarExpr | None]:
        """Return factors that read along memory, and what their sum lacks then."""
        column = self._column_factor(body, axis)
        if column is None:
            args = tuple(self._factor(f, axis, units) for f in body.args)
            return self._with_signs(reduction, args)
        # The columns of the result are lanes, and the other factor is read one by one.
        stays = [f is column or self._load(f) is not None for f in body.args]
        args = tuple(
            f if stay else self._factor(f, axis, units) for f, stay in zip(body.args, stays)
        )
        return args, None

    def _with_packs(self, reduction: c.Reduce, found: Packed) -> c.Reduce | None:
        """Return a sum whose bytes are copied where they are computed, which every tile of columns
        would do again; None where they are at hand.
        """
        body = reduction.body
        if not isinstance(body, c.Scalar) or self._is_run(found.bytes, found.axis, moved=True):
            return None
        units = tuple(a for a in reduction.axes if a.extent == 1)
        args = tuple(
            f if narrow(f) is found.weight else self._factor(f, found.axis, units)
            for f in body.args
        )
        if all(a is b for a, b in zip(args, body.args)):
            return None
        product = c.Scalar(body.dtype, body.name, args)
        return c.Reduce(reduction.dtype, reduction.kind, reduction.axes, product)

    def _with_signs(
        self, reduction: c.Reduce, factors: tuple[c.ScalarExpr, ...]
    ) -> tuple[tuple[c.ScalarExpr, ...], c.ScalarExpr | None]:
        """Return factors of bytes whose signs are those that the target multiplies, and what the
        sum lacks then.

        `sum(a * b)` -> `sum(a * (b + 128)) - 128 * sum(a)`, the second sum once a row.
        """
        dots, small = self.context.dots, [b for b in map(narrow, factors) if b is not None]
        axes = body_of(self.tensor).axes
        if dots not in ("mixed", "same") or [b.dtype.bits for b in small] != [8, 8]:
            return factors, None
        a, b = reversed(small) if _places(small[0], axes)[-1:] == axes[-1:] else small
        rows = _places(a, axes)
        is_fit = (a.dtype.kind == b.dtype.kind) == (dots == "same")
        if is_fit or not rows or self._is_used_little(rows):
            return factors, None
        total = c.Reduce(INT32, "sum", reduction.axes, c.cast(a, INT32))
        shape = tuple(x.extent for x in rows)
        sums = self._kept(c.Tensor("sums", shape, INT32, c.Compute(rows, total)))
        other, sign, offset = (UINT8, 128, -128) if b.dtype is INT8 else (INT8, -128, 128)
        moved = c.scalar("bitwise_xor", c.scalar(f"bits_as_{other}", b), sign)
        correction = c.TensorLoad(INT32, sums, rows) * offset
        return (c.cast(a, INT32), c.cast(moved, INT32)), correction

    def _is_used_little(self, used: tuple[c.IndexVar, ...]) -> bool:
        """Return whether few results need what depends on some of the axes alone."""
        uses = self._uses(used)
        return isinstance(uses, int) and uses < MIN_REUSE

    def _uses(self, used: tuple[c.IndexVar, ...]) -> Dim:
        """Return how many results need an element that depends on some of the axes alone."""
        uses: Dim = 1
        for axis in body_of(self.tensor).axes:
            if axis not in used:
                uses = dim_mul(uses, axis.extent)
        return uses

    def _stays_small(self, factor: c.ScalarExpr) -> bool:
        """Return whether a factor is better widened where it is used than once, in a copy."""
        uses = self._uses(_places(factor, body_of(self.tensor).axes))
        return factor.dtype.is_integer or not isinstance(uses, int) or uses < MANY_USES

    def _kept(self, tensor: c.Tensor) -> c.Tensor:
        """Return a tensor that gets memory of its own."""
        shape = tuple(self.context.dim(d) for d in tensor.shape)
        name = f"t{len(self.context.buffers)}"
        self.context.buffers[tensor] = n.Buffer(name, tensor.dtype, shape, "scratch")
        self.copies.append(tensor)
        return tensor

    def _factor(
        self, factor: c.ScalarExpr, axis: c.IndexVar, units: tuple[c.IndexVar, ...]
    ) -> c.ScalarExpr:
        factor = _through(factor)
        small = narrower(factor)
        if small is not None and self._stays_small(small):
            copied = self._factor(small, axis, units)
            return factor if copied is small else c.cast(copied, factor.dtype)
        used = {id(m) for m in nodes(factor) if isinstance(m, c.IndexVar)}
        if id(axis) not in used:
            return factor
        own = body_of(self.tensor).axes
        if self._is_used_little(_places(factor, own)):
            return factor
        if self._is_run(factor, axis):
            return factor
        axes = (*(a for a in (*own, *units) if id(a) in used), axis)
        shape = tuple(a.extent for a in axes)
        copy = c.Tensor("operand", shape, factor.dtype, c.Compute(axes, factor))
        self._kept(copy)
        return c.TensorLoad(copy.dtype, copy, axes)

    def _column_factor(self, body: c.Scalar, axis: c.IndexVar) -> c.ScalarExpr | None:
        """Return the factor that runs along the result's last axis, of which the other has nothing;
        None where there is none, or all run along the reduced axis.
        """
        own = [a for a in body_of(self.tensor).axes if a.extent != 1]
        if not own or is_small(self.context.dim(own[-1].extent)):
            return None
        if all(self._is_run(f, axis) for f in body.args):
            return None
        column = own[-1]
        found = [f for f in body.args if any(m is column for m in nodes(f))]
        if len(found) != 1 or self._is_far(found[0], axis) or not self._is_run(found[0], column):
            return None
        return found[0]

    def _is_far(self, factor: c.ScalarExpr, axis: c.IndexVar) -> bool:
        """Return whether a matrix is known to be large and read for many rows.

        Its columns, which lie far apart, then push each other out of the cache.
        """
        used = {id(m) for m in nodes(factor) if isinstance(m, c.IndexVar)}
        own = body_of(self.tensor).axes
        rows: Dim = 1
        for other in own:
            if id(other) not in used:
                rows = dim_mul(rows, other.extent)
        column = next(a for a in reversed(own) if a.extent != 1)
        size = dim_mul(4, dim_mul(axis.extent, column.extent))
        if not isinstance(rows, int) or not isinstance(size, int):
            return False
        return rows >= FAR_ROWS and size >= FAR_BYTES

    def _is_run(self, factor: c.ScalarExpr, axis: c.IndexVar, moved: bool = False) -> bool:
        """Return whether a factor is one load that runs along memory with an axis, perhaps with
        its sign changed where it may be `moved`.
        """
        load = self._load(factor, moved)
        if load is None or not has_dense_rows(load[0].buffer, self.context.broadcasts):
            return False
        value, frame = load
        *outer, last = value.indices
        k = frame.get(axis)
        return k is not None and not any(_mentions(i, k) for i in (*outer, s.sub(last, k)))

    def _load(self, factor: c.ScalarExpr, moved: bool = False) -> tuple[n.Load, Frame] | None:
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
        value = _unmoved(value, emitter.statements) if moved else value
        if not isinstance(value, n.Load) or value.mask is not None or not value.indices:
            return None
        return value, frame


def has_dense_rows(buffer: n.Buffer, broadcasts: tuple[n.Expr, ...]) -> bool:
    """Return whether the last axis of a buffer runs along memory, as one does that nothing
    broadcasts: a number, or a size that is in none of `broadcasts`.
    """
    if buffer.access is not Access.STRIDED:
        return buffer.access is Access.DENSE
    last = buffer.shape[-1] if buffer.shape else n.const(1)
    if isinstance(last, n.Const):
        return last.value != 1
    return not any(last in broadcast_parts(end) for end in broadcasts)


def _unmoved(value: n.Expr, statements: list[n.Stmt]) -> n.Expr:
    """Return what a value was before its sign was changed."""
    bound = {stmt.var: stmt.value for stmt in statements if isinstance(stmt, n.Let)}
    while True:
        if isinstance(value, n.Var) and value in bound:
            value = bound[value]
        elif isinstance(value, n.Call) and value.name.startswith(MOVES):
            value = value.args[0]
        else:
            return value


def _unknown_reduction(emitter: Emitter, reduction: Reduction, frame: Frame) -> n.Expr:
    raise CannotVectorise("a reduction inside a factor")


def _through(expr: c.ScalarExpr) -> c.ScalarExpr:
    """Return the cast that an element of another tensor is, or the expression as it is."""
    cast = widened(expr)
    return expr if cast is None else cast


def _places(expr: c.ScalarExpr, axes: tuple[c.IndexVar, ...]) -> tuple[c.IndexVar, ...]:
    """Return which of the axes an expression depends on."""
    used = {id(m) for m in nodes(expr)}
    return tuple(a for a in axes if id(a) in used)


def _mentions(expr: n.Expr, var: n.Expr) -> bool:
    return expr == var or any(_mentions(e, var) for e in n.children(expr))
