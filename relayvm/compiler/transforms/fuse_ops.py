"""Fusion as a pass over graphs that users see: operator calls become calls of functions with
`Primitive=1`.

The machine's own kernels are made by `fuse`; this pass decides by dominance and fusion classes
alone, as programs written for it expect.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from relayvm.compiler.analysis.dominance import PostDominators
from relayvm.compiler.analysis.purity import Effect, Purity
from relayvm.compiler.analysis.scopes import (
    Scopes,
    is_atomic,
    is_primitive,
    same_scope_children,
    scope_bodies,
)
from relayvm.compiler.analysis.traps import may_trap
from relayvm.ir.expr import Attrs, Call, Constant, Expr, Function, Tuple, TupleGetItem, Var
from relayvm.ir.module import Module
from relayvm.ir.scope import Scope
from relayvm.ir.types import FuncType, TensorType, TupleType
from relayvm.ir.visit import children, post_order, with_children, with_parts
from relayvm.ops.operator import Fusion, Operator

PRIMITIVE = Attrs(Primitive=1)
BARRIER = "annotation.stop_fusion"


class Class(IntEnum):
    """How freely a node or a group fuses: the greater, the less."""

    ELEMENTWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    REDUCTION = 3
    ANCHOR = 4
    TUPLE = 5
    OPAQUE = 6


_CLASSES = {
    Fusion.ELEMENTWISE: Class.ELEMENTWISE,
    Fusion.BROADCAST: Class.BROADCAST,
    Fusion.INJECTIVE: Class.INJECTIVE,
    Fusion.REDUCTION: Class.REDUCTION,
    Fusion.CONTRACTION: Class.ANCHOR,
    Fusion.OPAQUE: Class.OPAQUE,
}
_REDUCTION_SINKS = (Class.ELEMENTWISE, Class.BROADCAST, Class.INJECTIVE, Class.REDUCTION)


def fuse_ops(
    module: Module, fuse_opt_level: int = 1, max_depth: int = 256, max_function_args: int = 0
) -> Module:
    """Group operator calls: `exp(add(%x, 1f))` -> `fn (%p0, Primitive=1) { exp(add(%p0, 1f)) }
    (%x)`.

    A call joins its post-dominator where the classes of both and of all between allow it: first
    contractions take elementwise epilogues, then chains of injective calls join, last injective
    fields join tuples that are inside of a group. Nothing crosses a let, a branch, a clause, a
    reference, a function or `annotation.stop_fusion`, which goes; nor, in a program that writes
    references, does what may trap. `max_depth` is the most nodes of a group, `max_function_args`
    the most operands (0: any number). With `fuse_opt_level=0` each call is a group of its own.
    Requires TYPED, which it keeps.
    """
    writes = bool(Purity(module).anything & Effect.WRITE)
    functions = {}
    for name, function in module.functions.items():
        if is_primitive(function):
            functions[name] = function
            continue
        graph = _Graph(function, writes)
        groups = _Groups(graph, max_depth, max_function_args)
        if fuse_opt_level:
            groups.fuse()
        functions[name] = _Emitter(graph, groups).run(function)
    return module.with_functions(functions)


@dataclass(slots=True)
class _Node:
    """One node: its class, whether its value is needed outside of groups, and who reads it."""

    expr: Expr
    kind: Class
    external: bool = False
    users: list[tuple[int, Class]] = field(default_factory=list)


class _Graph:
    """The nodes of a function in order of evaluation, with the edges along which they may fuse."""

    def __init__(self, function: Function, writes: bool) -> None:
        self.scopes = Scopes(function)
        self.writes = writes
        self.nodes: list[_Node] = []
        self.index: dict[int, int] = {}
        self.primitive: dict[Scope, bool] = {self.scopes.top: False}
        for expr in post_order(function):
            self.index[id(expr)] = len(self.nodes)
            kind = Class.OPAQUE if self.is_done(expr) else self._class(expr)
            self.nodes.append(_Node(expr, kind))
        for index, node in enumerate(self.nodes):
            self._link(index, node)

    def is_done(self, expr: Expr) -> bool:
        """Return True inside of a primitive function."""
        if is_atomic(expr):
            return False
        scope = self.scopes.of(expr)
        chain: list[Scope] = []
        while scope not in self.primitive:
            chain.append(scope)
            scope = scope.parent
        found = self.primitive[scope]
        for inner in reversed(chain):
            found = found or (inner.owner is not None and is_primitive(inner.owner))
            self.primitive[inner] = found
        return found

    def _class(self, expr: Expr) -> Class:
        match expr:
            case Tuple():
                return Class.TUPLE if _of_tensors(expr) else Class.OPAQUE
            case TupleGetItem():
                return Class.INJECTIVE if _of_tensors(expr.tuple_value) else Class.OPAQUE
            case Call() if is_computed(expr):
                assert isinstance(expr.op, Operator)
                return _CLASSES[expr.op.fusion]
        return Class.OPAQUE

    def _link(self, index: int, node: _Node) -> None:
        expr = node.expr
        if is_atomic(expr):
            return
        fusible = node.kind is not Class.OPAQUE
        own = self.scopes.of(expr)
        for part in same_scope_children(expr):
            source = self.nodes[self.index[id(part)]]
            same = is_atomic(part) or self.scopes.of(part) is own
            if fusible and same and not self._must_stay(part):
                source.users.append((index, self._edge(part, node)))
            else:
                source.external = True
        for part in scope_bodies(expr):
            self.nodes[self.index[id(part)]].external = True

    def _must_stay(self, part: Expr) -> bool:
        """Keep what may trap in front of what may write to a reference."""
        return self.writes and is_computed(part) and may_trap(part)  # type: ignore[arg-type]

    def _edge(self, part: Expr, user: _Node) -> Class:
        if user.kind is Class.BROADCAST:
            a, b = part.checked_type, user.expr.checked_type
            same = isinstance(a, TensorType) and isinstance(b, TensorType) and a.shape == b.shape
            return Class.ELEMENTWISE if same else Class.BROADCAST
        return user.kind


def is_computed(expr: Expr) -> bool:
    """Return True for a call of an operator that a kernel can compute."""
    if not isinstance(expr, Call) or not isinstance(expr.op, Operator):
        return False
    return not expr.op.has_effect and not expr.op.is_data_dependent and expr.op.name != BARRIER


def _of_tensors(expr: Expr) -> bool:
    kind = expr.checked_type
    return isinstance(kind, TupleType) and all(isinstance(f, TensorType) for f in kind.fields)


class _Groups:
    """Which nodes share a function: a union-find whose root is the node that gives the result."""

    def __init__(self, graph: _Graph, max_depth: int, max_args: int) -> None:
        self.nodes = graph.nodes
        self.graph = graph
        self.max_depth = max_depth
        self.max_args = max_args
        self.parent = list(range(len(self.nodes)))
        self.kind = [node.kind for node in self.nodes]
        self.size = [1] * len(self.nodes)
        self.members: list[list[int]] = [[i] for i in range(len(self.nodes))]
        links = [None if node.external else node.users for node in self.nodes]
        self.dominators = PostDominators(links, Class.ELEMENTWISE)

    def root(self, index: int) -> int:
        """Return the node that stands for the group of a node."""
        while self.parent[index] != index:
            self.parent[index] = self.parent[self.parent[index]]
            index = self.parent[index]
        return index

    def fuse(self) -> None:
        """Join groups, in three phases over all nodes in order of evaluation."""
        for phase in range(3):
            for index in range(len(self.nodes)):
                sink = self.dominators.parent[index]
                if self.nodes[index].kind is not Class.OPAQUE and sink is not None:
                    self._try(index, sink, phase)

    def _try(self, index: int, sink: int, phase: int) -> None:
        own, target = self.root(index), self.root(sink)
        kind = self.kind[own]
        if phase == 2:
            # A tuple that is the result of its group stays a tuple of what is computed elsewhere.
            inner = self.nodes[sink].kind is Class.TUPLE and self.kind[target] <= Class.INJECTIVE
            if kind <= Class.INJECTIVE and inner and own != target:
                self._join(index, sink, Class.INJECTIVE, _REDUCTION_SINKS[:3])
            return
        if own == target or self.nodes[sink].kind is Class.TUPLE:
            return
        edge = self.dominators.pattern[index]
        if kind is Class.ANCHOR:
            if phase == 0 and edge is Class.ELEMENTWISE:
                self._join(index, sink, Class.BROADCAST, (Class.ELEMENTWISE, Class.BROADCAST))
        elif kind <= Class.BROADCAST:
            if edge <= Class.REDUCTION:
                self._join(index, sink, Class.INJECTIVE, (*_REDUCTION_SINKS, Class.ANCHOR))
        elif kind in (Class.INJECTIVE, Class.TUPLE) and phase == 1:
            self._join(index, sink, Class.INJECTIVE, _REDUCTION_SINKS[:3])

    def _join(self, index: int, sink: int, between: Class, at_sink: tuple[Class, ...]) -> None:
        """Merge the groups of all nodes from `index` to `sink` if their classes and sizes allow
        it.
        """
        path = self._path(index, sink, between, at_sink)
        if path is None:
            return
        groups = {self.root(node) for node in path}
        target = self.root(sink)
        groups.discard(target)
        total = self.size[target] + sum(self.size[g] for g in groups)
        if total > self.max_depth or not self._few_operands(groups | {target}):
            return
        for group in groups:
            self.parent[group] = target
            self.size[target] += self.size[group]
            self.members[target] += self.members[group]
            if self.kind[group] is Class.ANCHOR:
                self.kind[target] = Class.ANCHOR

    def _path(
        self, index: int, sink: int, between: Class, at_sink: tuple[Class, ...]
    ) -> list[int] | None:
        """Return the nodes on all ways from `index` up to `sink`; None if one of them hinders."""
        path = [index]
        seen = {index}
        pending = [user for user, _ in self.nodes[index].users]
        while pending:
            node = pending.pop()
            if node in seen:
                continue
            seen.add(node)
            path.append(node)
            kind = self.kind[self.root(node)]
            if len(path) > self.max_depth + 1:
                return None
            if node == sink:
                if kind not in at_sink:
                    return None
                continue
            if kind > between:
                return None
            pending.extend(user for user, _ in self.nodes[node].users)
        return path

    def _few_operands(self, groups: set[int]) -> bool:
        if not self.max_args:
            return True
        inside = {m for g in groups for m in self.members[g]}
        index = self.graph.index
        outer = {
            id(part)
            for m in inside
            for part in children(self.nodes[m].expr)
            if index[id(part)] not in inside and not isinstance(part, Operator)
        }
        return len(outer) <= self.max_args


class _Builder:
    """The function of one group while it is written."""

    def __init__(self, places: list[int]) -> None:
        self.places = places
        self.names = {place: f"p{i}" for i, place in enumerate(places)}
        self.params: dict[int, tuple[Var, Expr]] = {}
        self.inner: dict[int, Expr] = {}

    def param(self, place: int, outer: Expr) -> Var:
        """Return the parameter for what is computed outside, which is node `place`."""
        if place not in self.params:
            kind = outer.checked_type
            var = Var(self.names[place], kind, span=outer.span, checked_type=kind)
            self.params[place] = var, outer
        return self.params[place][0]

    def finish(self, body: Expr) -> Expr:
        """Return the call."""
        order = [self.params[place] for place in self.places]
        params = tuple(var for var, _ in order)
        kind = body.checked_type
        assert kind is not None
        types = tuple(p.checked_type for p in params)
        signature = FuncType(types, kind)  # type: ignore[arg-type]
        function = Function(
            params, body, kind, attrs=PRIMITIVE, span=body.span, checked_type=signature
        )
        args = tuple(outer for _, outer in order)
        return Call(function, args, span=body.span, checked_type=kind)


def _stays_inside(part: Expr) -> bool:
    """Return True for what a group holds itself: operators and numbers."""
    return isinstance(part, Operator) or (isinstance(part, Constant) and part.data.ndim == 0)


class _Emitter:
    """Writes the function anew with a call for each group."""

    def __init__(self, graph: _Graph, groups: _Groups) -> None:
        self.graph = graph
        self.groups = groups
        self.outer: dict[int, Expr] = {}
        self.builders: dict[int, _Builder] = {}
        self.computed = [
            is_computed(node.expr) and not graph.is_done(node.expr) for node in graph.nodes
        ]
        self.real = {groups.root(i) for i, computed in enumerate(self.computed) if computed}

    def run(self, function: Function) -> Function:
        for index, node in enumerate(self.graph.nodes):
            self._visit(index, node.expr)
        result = self.outer[id(function)]
        assert isinstance(result, Function)
        return result

    def _visit(self, index: int, expr: Expr) -> None:
        group = self.groups.root(index)
        if is_atomic(expr):
            self.outer[id(expr)] = expr
        elif isinstance(expr, Call) and getattr(expr.op, "name", "") == BARRIER:
            self.outer[id(expr)] = self.outer[id(expr.args[0])]
        elif group in self.real:
            self._add(index, group, expr)
        else:
            self.outer[id(expr)] = with_parts(expr, self.outer)

    def _add(self, index: int, group: int, expr: Expr) -> None:
        builder = self.builders.get(group)
        if builder is None:
            self.builders[group] = builder = _Builder(self._operands_of(group))
        parts = tuple(self._operand(builder, part) for part in children(expr))
        inner = with_children(expr, parts)
        builder.inner[id(expr)] = inner
        if index == group:
            self.outer[id(expr)] = builder.finish(inner)

    def _operands_of(self, group: int) -> list[int]:
        """Return what a group takes from outside in order of need, but what is computed there in
        order of evaluation.
        """
        index, nodes = self.graph.index, self.graph.nodes
        members = sorted(self.groups.members[group])
        parts = (p for m in members for p in children(nodes[m].expr) if not _stays_inside(p))
        places = [p for p in dict.fromkeys(index[id(p)] for p in parts) if p not in set(members)]
        computed = iter(sorted(p for p in places if not is_atomic(nodes[p].expr)))
        return [p if is_atomic(nodes[p].expr) else next(computed) for p in places]

    def _operand(self, builder: _Builder, part: Expr) -> Expr:
        if _stays_inside(part):
            return part
        known = builder.inner.get(id(part))
        if known is not None:
            return known
        return builder.param(self.graph.index[id(part)], self.outer[id(part)])
