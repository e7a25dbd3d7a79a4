"""Grouping of operator calls into kernels: each group becomes a call of a function with
`Primitive=1`.

Works on A-normal form, block by block (a block is one chain of lets). Word instructions stay
outside, and so do views that do not stand between operators of one kernel.
"""

from __future__ import annotations

import sys
from collections.abc import Container, Mapping
from dataclasses import replace

from relayvm.compiler.analysis.readers import Readers, find_readers
from relayvm.compiler.analysis.scopes import is_primitive
from relayvm.compiler.analysis.traps import may_trap
from relayvm.compiler.infer_types import needs_check
from relayvm.compiler.lower.words import is_view, kernel_operator, takes_rows
from relayvm.compiler.transforms.blocks import Binding, rebuild_block, rewrite_blocks
from relayvm.compiler.transforms.broaden import broaden_products
from relayvm.compiler.transforms.declared_sizes import hiding_names
from relayvm.compiler.transforms.fusion_groups import (
    MAX_TENSORS,
    Groups,
    Node,
    needs_of,
    order_of,
)
from relayvm.compiler.transforms.fusion_rows import is_cheap_view
from relayvm.compiler.transforms.narrow import chunks_of_results, narrow_operands
from relayvm.compiler.transforms.primitive_group import (
    GroupBuilder,
    is_checked_at_run,
    type_of,
)
from relayvm.ir.expr import (
    Call,
    Constructor,
    Expr,
    Function,
    If,
    Match,
    Op,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from relayvm.ir.module import Module
from relayvm.ir.types import TupleType
from relayvm.ir.visit import free_vars, post_order


def fuse(module: Module) -> Module:
    """Return the module with operator calls grouped into primitive functions.

    Requires TYPED and ANF, ensures FUSED. A group is elementwise, or it has anchors: contractions
    and reductions. What an anchor reads may be computed in it if nobody else reads it (a reduction
    along the last axes computes each element once anyhow, so others may read it too); what follows
    is its epilogue, and may have several outputs. No work is done twice.

    Anchors share a kernel if they go over the same rows, or over one row that all rows use:
    - products of the same first operand: it passes the cache once;
    - anchors whose results meet, as the gates of a cell do;
    - a reduction of the last axes of rows that the group computes: softmax, normalisation, written
      as one operator or as several;
    - a product of rows that the group computes, with a matrix for each of a batch (attention), or
      with weights that stay in the cache; two in a chain, see MAX_CHAIN and RESIDENT.
    Results that stay within a kernel lie in scratch memory, as large as the tensors that separate
    kernels would have, or as a block of rows where all go over it together.

    A product that a run may broadcast to what is added to it is computed at that size, see
    `broaden`.

    A view between two operators of a group is a way to read, if it reads runs of memory; others
    stay outside, where they cost nothing.

    `let %a = add(%x, 1f); let %b = exp(%a); %b`
    -> `let %b = fn (%p: ..., Primitive=1) { let %a = add(%p, 1f); exp(%a) }(%x); %b`
    """
    writes = any(
        isinstance(node, RefWrite) for f in module.functions.values() for node in post_order(f)
    )
    functions = {}
    for name, function in module.functions.items():
        functions[name] = function if is_primitive(function) else _fuse_function(function, writes)
    return module.with_functions(functions)


def _fuse_function(function: Function, writes: bool) -> Function:
    result = rewrite_blocks(
        function, _Fuser(find_readers(function), writes).block, skip=is_primitive
    )
    assert isinstance(result, Function)
    return result


class _Fuser:
    """Groups the bindings of each block of one function."""

    def __init__(self, readers: Readers, writes: bool) -> None:
        self.readers = readers
        self.writes = writes
        # What the program wrote, by the name of what was broadened in its place.
        self.written: dict[Var, Binding] = {}

    def block(self, bindings: list[Binding], tail: Expr) -> Expr:
        """Return the block with its operator calls grouped."""
        escaping: Container[Expr] = self.readers.escaping
        if kernel_operator(tail) is not None:
            kind = tail.checked_type
            named = Var("v", kind, span=tail.span, checked_type=kind)
            self.readers.reads[named] = dict.fromkeys(free_vars(tail))
            bindings, tail = [*bindings, Binding(named, tail, tail.span)], named
            escaping = (named,)
        bindings = self.compared(self.broadened(self.narrowed(bindings), escaping))
        nodes = self.analyse(bindings, escaping)
        if self.writes:
            _mark_barriers(nodes)
        if not any(node.operator for node in nodes):
            return rebuild_block(bindings, tail)
        groups = Groups(nodes)
        for index in range(len(nodes)):
            if nodes[index].fusible:
                groups.join(index)
        return _emit(nodes, groups, tail, self.written)

    def narrowed(self, bindings: list[Binding]) -> list[Binding]:
        result = narrow_operands(bindings)
        if result is not bindings:
            for binding in result:
                if binding.value.__class__ in (Call, Tuple, TupleGetItem):
                    self.readers.reads[binding.var] = dict.fromkeys(free_vars(binding.value))
        return result

    def broadened(self, bindings: list[Binding], escaping: Container[Expr]) -> list[Binding]:
        result, self.written = broaden_products(bindings, self.readers.reads, escaping)
        if result is not bindings:
            for binding in result:
                if binding.value.__class__ is Call:
                    self.readers.reads[binding.var] = dict.fromkeys(free_vars(binding.value))
        return result

    def compared(self, bindings: list[Binding]) -> list[Binding]:
        """Let variables whose types promise more than their values' stand outside of kernels, where
        the promise is compared, and those whose types hide what operators could not take.
        """
        result: list[Binding] = []
        hiding = hiding_names(bindings)
        for binding in bindings:
            var, value = binding.var, binding.value
            given, wanted = value.checked_type, var.checked_type
            fusible = kernel_operator(value) is not None or isinstance(value, TupleGetItem)
            if not fusible or given is None or wanted is None:
                result.append(binding)
                continue
            if var in hiding or needs_check(given, wanted):
                plain = Var(var.name, given, span=var.span, checked_type=given)
                self.readers.reads[plain] = self.readers.reads.get(var, {})
                self.readers.reads[var] = {plain: None}
                result.append(Binding(plain, value, binding.span))
                binding = replace(binding, value=plain)
            result.append(binding)
        return result

    def analyse(self, bindings: list[Binding], escaping: Container[Expr]) -> list[Node]:
        place = {binding.var: index for index, binding in enumerate(bindings)}
        nodes: list[Node] = []
        for index, binding in enumerate(bindings):
            read = self.readers.reads.get(binding.var, ())
            inputs = [place[v] for v in read if v in place]
            node = Node(binding, inputs, kernel_operator(binding.value))
            node.escapes = binding.var in escaping
            nodes.append(node)
            for i in inputs:
                nodes[i].users.append(index)
        _mark_glue(nodes, place)
        for node in nodes:
            if node.fusible:
                node.needs = needs_of(node.binding.value, node.view)
            node.fixed_user = next((u for u in node.users if not nodes[u].fusible), sys.maxsize)
        return nodes


def _mark_barriers(nodes: list[Node]) -> None:
    """What may trap stays in front of what may write to a reference: the write would be seen."""
    barrier = sys.maxsize
    for index in range(len(nodes) - 1, -1, -1):
        value = nodes[index].binding.value
        if nodes[index].operator is not None:
            assert isinstance(value, Call)
            nodes[index].barrier = barrier if may_trap(value) else sys.maxsize
        elif nodes[index].view:
            assert isinstance(value, Call)
            nodes[index].barrier = barrier if is_checked_at_run(value) else sys.maxsize
        elif _may_write(value):
            barrier = index


def _may_write(value: Expr) -> bool:
    if isinstance(value, Call):
        return not isinstance(value.op, (Op, Constructor)) and not is_primitive(value.op)
    return isinstance(value, (RefWrite, If, Match))


def _mark_glue(nodes: list[Node], place: dict[Var, int]) -> None:
    """Tuples that only feed operators, and projections of operator results, take no code of their
    own.
    """
    for node in nodes:
        value = node.binding.value
        if isinstance(value, Tuple):
            fed = node.users and all(nodes[u].operator for u in node.users)
            node.glue = bool(fed) and not node.escapes and bool(value.fields)
        elif isinstance(value, TupleGetItem) and isinstance(value.tuple_value, Var):
            source = place.get(value.tuple_value)
            node.glue = source is not None and nodes[source].operator is not None
        elif isinstance(value, Call) and is_view(value) and isinstance(value.args[0], Var):
            source = place.get(value.args[0])
            made = source is not None and (nodes[source].fusible or nodes[source].view)
            node.glue = node.view = made and is_cheap_view(value)


def _emit(nodes: list[Node], groups: Groups, tail: Expr, written: Mapping[Var, Binding]) -> Expr:
    bindings: list[Binding] = []
    for index in order_of(nodes, groups):
        members = groups.of[index].members
        if any(nodes[m].operator for m in members):
            bindings.extend(_emit_group(nodes, members, written))
        else:
            bindings.extend(nodes[m].binding for m in members)
    return rebuild_block(bindings, tail)


def _emit_group(
    nodes: list[Node], members: list[int], written: Mapping[Var, Binding]
) -> list[Binding]:
    inside = set(members)
    read = [m for m in members if nodes[m].escapes or not inside.issuperset(nodes[m].users)]
    views = _views_behind(nodes, inside, read)
    outputs = [m for m in members if (m in read and not nodes[m].view) or m in views.values()]
    if not outputs:
        return []  # Nobody reads it; operators have no effects.
    if len(members) == 1 and nodes[members[0]].needs.results > MAX_TENSORS:
        return _emit_wide(nodes[members[0]].binding)
    parts = _parts_of_operands(nodes, members)
    made = [m for m in outputs if m not in parts]
    result = _emit_kernel(nodes, members, made, parts, written) if made else []
    if len(made) < len(outputs):
        taken = [m for m in outputs if m in parts]
        result += _emit_kernel(nodes, sorted(parts), taken, parts, written)
    return [*result, *(nodes[m].binding for m in sorted(views))]


def _emit_kernel(
    nodes: list[Node],
    members: list[int],
    outputs: list[int],
    free: set[int],
    written: Mapping[Var, Binding],
) -> list[Binding]:
    """Return a primitive function and its call, without views and members of `free` that it does
    not need.
    """
    builder = GroupBuilder(written)
    needed = set(outputs)
    for m in reversed(members):
        if not (nodes[m].view or m in free) or not needed.isdisjoint(nodes[m].users):
            needed.add(m)
    for m in members:
        if m in needed:
            builder.add(nodes[m].binding)
    return builder.finish([nodes[m].binding.var for m in outputs])


def _parts_of_operands(nodes: list[Node], members: list[int]) -> set[int]:
    """Return the members that only take rows of what the group is given: views, for others."""
    parts: set[int] = set()
    for m in members:
        value = nodes[m].binding.value
        ours = [i for i in nodes[m].inputs if i in members]
        taken = isinstance(value, Call) and nodes[m].operator is not None and takes_rows(value)
        glue = isinstance(value, Tuple) or (isinstance(value, TupleGetItem) and ours)
        if (taken or glue) and parts.issuperset(ours):
            parts.add(m)
    return parts


def _views_behind(nodes: list[Node], inside: set[int], read: list[int]) -> dict[int, int]:
    """Return the views that stand behind a kernel because something outside reads them, each with
    the member that the kernel gives out for it.
    """
    views: dict[int, int] = {}
    for m in read:
        chain = []
        while nodes[m].view:
            chain.append(m)
            m = next(i for i in nodes[m].inputs if i in inside)
        views.update(dict.fromkeys(chain, m))
    return views


def _emit_wide(binding: Binding) -> list[Binding]:
    """Return several kernels for an operator with more results than one may have."""
    kind, span = type_of(binding.value), binding.span
    assert isinstance(kind, TupleType)
    result: list[Binding] = []
    items: list[Var] = []
    for value, first, chunk in chunks_of_results(binding.value):
        builder = GroupBuilder()
        own = type_of(value)
        whole = Var(binding.var.name, own, span=span, checked_type=own)
        builder.add(Binding(whole, value, span))
        for place, index in enumerate(chunk, first):
            field_type = kind.fields[index]
            item = Var(f"{whole.name}_{index}", field_type, span=span, checked_type=field_type)
            get = TupleGetItem(whole, place, span=span, checked_type=field_type)
            builder.add(Binding(item, get, span))
            items.append(item)
        result += builder.finish(items[chunk.start : chunk.stop])
    whole_value = Tuple(tuple(items), span=span, checked_type=kind)
    return [*result, Binding(binding.var, whole_value, span)]
