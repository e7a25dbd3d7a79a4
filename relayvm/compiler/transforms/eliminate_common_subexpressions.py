"""Common subexpressions: the same pure call, made again where its first result is at hand."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from relayvm.base.trampoline import Recursive, trampoline
from relayvm.compiler.analysis.purity import Purity
from relayvm.compiler.analysis.scopes import Scopes, is_atomic, same_scope_children, scope_bodies
from relayvm.ir.expr import (
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    Let,
    Tuple,
    TupleGetItem,
)
from relayvm.ir.module import Module
from relayvm.ir.scope import Scope
from relayvm.ir.visit import children, with_parts

LARGEST_COMPARED_BYTES = 1024


def eliminate_common_subexpressions(
    module: Module, skip: Callable[[Expr], bool] | None = None
) -> Module:
    """Share equal pure calls: `add(exp(%x), exp(%x))` -> `let %v = exp(%x); add(%v, %v)`.

    A call is replaced only by one that has been made before it in the same or an enclosing scope,
    so nothing is computed that was not, or earlier than it was. So is a projection by the field of
    the tuple that it is taken from: `let %p = (exp(%x), %y); %p.0`. Nodes for which `skip` holds
    stay themselves. Linear.
    """
    purity = Purity(module)
    functions = {}
    for name, function in module.functions.items():
        functions[name] = trampoline(_Sharer(function, purity, skip).rewrite(function))
    return module.with_functions(functions)  # type: ignore[arg-type]


class _Region:
    """A let in the place of an operand or value: its variables are visible only inside."""

    __slots__ = ("depth", "is_open", "parent")

    def __init__(self, parent: _Region | None) -> None:
        self.parent = parent or self
        self.depth: int = parent.depth + 1 if parent else 0
        self.is_open = True


@dataclass(frozen=True, slots=True)
class _Known:
    """A call that has been made: where, what stands for it, where its variables are bound."""

    scope: Scope
    expr: Expr
    number: int
    region: _Region


class _Sharer:
    def __init__(
        self, function: Function, purity: Purity, skip: Callable[[Expr], bool] | None
    ) -> None:
        self.purity = purity
        self.skip = skip
        self.scopes = Scopes(function)
        self.done: dict[int, Expr] = {}
        self.numbers: dict[int, int] = {}
        self.atoms: dict[Hashable, int] = {}
        self.calls: dict[Hashable, list[_Known]] = {}
        self.tuples: dict[int, tuple[Scope, Tuple]] = {}  # by number
        self.open: set[Scope] = {self.scopes.top}
        self.count = 0
        self.top = self.region = _Region(None)
        self.bound: dict[Expr, _Region] = {}
        self.regions: dict[int, _Region] = {}  # the innermost that the variables of a node are of

    def rewrite(self, node: Expr) -> Recursive[Expr]:
        """Return what stands for `node`; nodes are visited in the order in which they are
        evaluated.
        """
        known = self.done.get(id(node))
        if known is not None:
            return known
        if is_atomic(node):
            self.numbers.setdefault(id(node), self.atom_number(node))
            self.finish_atom(node)
            return node
        lets = []
        start = node
        while isinstance(node, Let) and id(node) not in self.done:
            if self.is_ready(node.value):
                self.share(node.value)
            else:
                yield self.operand(node.value)
            # A recursive function has met its own variable already.
            self.bound[node.var] = self.regions[id(node.var)] = self.region
            if node.var.type_annotation in (None, node.value.checked_type):
                self.numbers[id(node.var)] = self.numbers[id(node.value)]
            lets.append(node)
            node = node.body
        if not lets or id(node) not in self.done:
            yield self.visit(node)
        for let in reversed(lets):
            self.done[id(let)] = with_parts(let, self.done)
            self.numbers[id(let)] = self.numbers[id(let.body)]
            self.regions[id(let)] = self.innermost(let)
        return self.done[id(start)]

    def operand(self, node: Expr) -> Recursive[Expr]:
        """Return the visit of what is no tail of its scope."""
        inner = isinstance(node, Let) and id(node) not in self.done
        return self.enclosed(node) if inner else self.rewrite(node)

    def enclosed(self, node: Expr) -> Recursive[Expr]:
        """Visit a let whose variables end with it."""
        region = self.region = _Region(self.region)
        new: Expr = yield self.rewrite(node)
        self.region, region.is_open = region.parent, False
        if self.regions[id(node)].depth >= region.depth:
            self.regions[id(node)] = region.parent
        return new

    def finish_atom(self, node: Expr) -> None:
        self.done[id(node)] = node
        self.regions[id(node)] = self.bound.get(node, self.top)

    def innermost(self, node: Expr) -> _Region:
        regions = (self.regions[id(part)] for part in children(node))
        return max(regions, key=lambda region: region.depth, default=self.top)

    def visit(self, node: Expr) -> Recursive[None]:
        if is_atomic(node):
            yield self.rewrite(node)
            return
        for part in same_scope_children(node):
            yield self.operand(part)
        for body, inner in zip(scope_bodies(node), self.scopes.opened(node)):
            self.open.add(inner)
            yield self.rewrite(body)
            self.open.discard(inner)
        self.share(node)

    def is_ready(self, node: Expr) -> bool:
        """Return True for a call of what is there already; atoms among its parts get numbers."""
        if id(node) in self.done or not isinstance(node, Call):
            return False
        for part in children(node):
            if id(part) not in self.done:
                if not is_atomic(part):
                    return False
                self.numbers.setdefault(id(part), self.atom_number(part))
                self.finish_atom(part)
        return True

    def share(self, node: Expr) -> None:
        """Decide what stands for a node whose parts are done."""
        new = with_parts(node, self.done)
        self.regions[id(node)] = region = self.innermost(node)
        key, scope = self.key(node), self.scopes.of(node)
        if key is None:
            self.done[id(node)], self.numbers[id(node)] = new, self.fresh()
            return
        if isinstance(node, TupleGetItem) and self.take_field(node, scope):
            return
        calls = self.calls.setdefault(key, [])
        # Open scopes lie in each other, so those not deeper than this one enclose it.
        while calls and calls[-1].scope not in self.open:
            calls.pop()
        for call in calls:
            near = call.scope in self.open and call.scope.depth <= scope.depth
            if near and call.region.is_open:
                self.done[id(node)], self.numbers[id(node)] = call.expr, call.number
                self.regions[id(node)] = call.region
                return
        number = self.fresh()
        calls.append(_Known(scope, new, number, region))
        if isinstance(node, Tuple):
            self.tuples[number] = scope, node
        self.done[id(node)], self.numbers[id(node)] = new, number

    def take_field(self, node: TupleGetItem, scope: Scope) -> bool:
        """Let a field stand for its projection out of a pure tuple that the same scope makes."""
        made = self.tuples.get(self.numbers[id(node.tuple_value)])
        if made is None or made[0] is not scope:
            return False
        field = made[1].fields[node.index]
        if field.checked_type != node.checked_type or not self.regions[id(field)].is_open:
            return False
        self.done[id(node)] = self.done[id(field)]
        self.numbers[id(node)] = self.numbers[id(field)]
        self.regions[id(node)] = self.regions[id(field)]
        return True

    def key(self, node: Expr) -> Hashable | None:
        """Return what equal nodes agree on; None for a node that must stay itself."""
        if not isinstance(node, (Call, Tuple, TupleGetItem)) or not self.purity.is_pure(node):
            return None
        if self.skip is not None and self.skip(node):
            return None
        operands = tuple(self.numbers[id(part)] for part in same_scope_children(node))
        extra: Hashable = None
        if isinstance(node, Call):
            extra = (node.attrs, node.type_args)
        elif isinstance(node, TupleGetItem):
            extra = node.index
        return (type(node), operands, extra, node.checked_type)

    def atom_number(self, node: Expr) -> int:
        key: Hashable = id(node)
        if isinstance(node, GlobalVar):
            key = (node.name, node.checked_type)
        elif isinstance(node, Constructor):
            key = (node.belong_to, node.index, node.checked_type)
        elif isinstance(node, Constant):
            data = node.data
            small = data.nbytes <= LARGEST_COMPARED_BYTES
            content: Hashable = data.tobytes() if small else id(data)
            key = (data.dtype.name, data.shape, content)
        return self.atoms.setdefault(key, self.fresh())

    def fresh(self) -> int:
        self.count += 1
        return self.count
