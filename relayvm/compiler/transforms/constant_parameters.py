"""Parameters that are the same constant at every call become it, also through recursion."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Union

from relayvm.base.dims import DimExpr, DimVar
from relayvm.compiler.analysis.call_graph import call_graph, components
from relayvm.compiler.analysis.scopes import (
    is_primitive,
    same_scope_children,
    scope_bodies,
)
from relayvm.compiler.entries import entry_names
from relayvm.compiler.transforms.copies import Copier, TypeMap
from relayvm.ir.expr import (
    Attrs,
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    Let,
    Tuple,
    TupleGetItem,
    Var,
)
from relayvm.ir.module import Module
from relayvm.ir.types import (
    FuncType,
    TensorType,
    Type,
    TypeVar,
)
from relayvm.ir.visit import post_order, rebuild, type_walk

LARGEST_COMPARED_BYTES = 1024
DEEPEST_OPERAND = 32


@dataclass(frozen=True, slots=True)
class _Same:
    """A value known at compile time: `key` tells equal ones, `expr` builds it."""

    key: object
    expr: Expr = field(compare=False)


# None: no call seen yet. "varies": different values, or one that is not known.
_Cell = Union[None, _Same, str]
_VARIES = "varies"


def constant_parameters(module: Module) -> Module:
    """Turn unchanging arguments into constants: `@f(%x, 2f)` everywhere -> `@f(%x)`.

    A parameter qualifies if every call passes the same constant, or the parameter itself down a
    recursion, or a captured or let-bound name of either. An entry that the program also calls
    keeps its form for the host; the program's own calls go to a copy. Requires TYPED.
    """
    groups = _entry_groups(module)
    if groups:
        copied, names = _with_copies(module, groups)
        solved = _Solution(copied)
        useful = [g for g in groups if any(solved.is_changed(names[name]) for name in g)]
        if useful != groups:
            copied, _ = _with_copies(module, useful) if useful else (module, {})
            solved = _Solution(copied)
        return solved.apply()
    return _Solution(module).apply()


def _entry_groups(module: Module) -> list[list[str]]:
    """Return the recursive groups that hold an entry and are also called from outside."""
    graph = call_graph(module)
    entries = set(entry_names(module))
    groups = []
    for group in components(graph):
        members = set(group)
        called = any(
            callee in members
            for caller, callees in graph.items()
            if caller not in members
            for callee in callees
        )
        if called and members & entries:
            groups.append(group)
    return groups


class _Renamer(Copier):
    """Copies a function with calls of some globals going to others."""

    def __init__(self, names: dict[str, str]) -> None:
        super().__init__(TypeMap())
        self.names = names

    def leaf(self, node: Expr) -> Expr:
        if isinstance(node, GlobalVar) and node.name in self.names:
            node = replace(node, name=self.names[node.name])
        return super().leaf(node)


def _with_copies(module: Module, groups: list[list[str]]) -> tuple[Module, dict[str, str]]:
    """Return the module with a copy of each group, which the functions outside of it call."""
    names: dict[str, str] = {}
    for name in (name for group in groups for name in group):
        names[name] = _fresh_name(name, {*module.functions, *names.values()})
    home = {name: set(group) for group in groups for name in group}
    functions: dict[str, Function] = {}
    for name, function in module.functions.items():
        outside = {old: new for old, new in names.items() if old not in home.get(name, ())}
        functions[name] = _redirected(function, outside)
        if name in names:
            copy = _Renamer(names).copy(function)
            assert isinstance(copy, Function)
            functions[names[name]] = copy
    # The copies are no entries: the host calls the originals.
    attrs = Attrs(module.attrs, entries=entry_names(module))
    return replace(module, functions=functions, attrs=attrs), names


def _fresh_name(name: str, taken: set[str]) -> str:
    number = 1
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


def _redirected(function: Function, names: dict[str, str]) -> Function:
    def rename(_before: Expr, after: Expr) -> Expr:
        if isinstance(after, GlobalVar) and after.name in names:
            return replace(after, name=names[after.name])
        return after

    result = rebuild(function, rename)
    assert isinstance(result, Function)
    return result


class _Solution:
    """What each parameter of each function of a module is; functions are globals and let-bound."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.cells: dict[int, _Cell] = {}
        self.bound: dict[int, Expr] = {}
        self.locals: dict[int, Function] = {}
        self.variables: dict[int, Var] = {}
        self.calls: list[tuple[Call, Function]] = []
        self.solve()

    def solve(self) -> None:
        for function in self.module.functions.values():
            self.collect(function)
        for name in entry_names(self.module):
            self.spoil(self.module.functions[name])
        for function in self.module.functions.values():
            self.scan(function)
        changed = True
        while changed:
            changed = False
            for call, callee in self.calls:
                for param, arg in zip(callee.params, call.args):
                    changed |= self.meet(param, self.value(arg, 0))

    def collect(self, function: Function) -> None:
        for node in post_order(function):
            if isinstance(node, Function):
                for param in node.params:
                    fixed = param.type_annotation or param.checked_type
                    free = fixed is None or _mentions_type_var(fixed) or is_primitive(node)
                    self.cells[id(param)] = _VARIES if free else None
            elif isinstance(node, Let):
                self.bound[id(node.var)] = node.value
                if isinstance(node.value, Function):
                    self.locals[id(node.var)] = node.value
                    self.variables[id(node.var)] = node.var

    def scan(self, function: Function) -> None:
        """Note the calls of known functions; a function used in any other way is spoiled."""
        for node in post_order(function):
            parts = same_scope_children(node) + scope_bodies(node)
            for position, part in enumerate(parts):
                callee = self.known_function(part)
                if callee is None:
                    continue
                if isinstance(node, Call) and position == 0:
                    self.calls.append((node, callee))
                elif not (isinstance(node, Let) and part is node.value and part is callee):
                    self.spoil(callee)

    def known_function(self, expr: Expr) -> Function | None:
        if isinstance(expr, GlobalVar):
            return self.module.functions.get(expr.name)
        if isinstance(expr, Var):
            return self.locals.get(id(expr))
        return expr if isinstance(expr, Function) else None

    def spoil(self, function: Function) -> None:
        for param in function.params:
            self.cells[id(param)] = _VARIES

    def meet(self, param: Var, value: _Cell) -> bool:
        old = self.cells[id(param)]
        if value is None or old in (_VARIES, value):
            return False
        self.cells[id(param)] = value if old is None else _VARIES
        return True

    def value(self, expr: Expr, depth: int) -> _Cell:
        """Return what an operand is known to be."""
        if depth > DEEPEST_OPERAND:
            return _VARIES
        match expr:
            case Constant():
                data = expr.data
                small = data.nbytes <= LARGEST_COMPARED_BYTES
                content: object = data.tobytes() if small else id(data)
                return _Same((data.dtype.name, data.shape, content), expr)
            case GlobalVar():
                function = self.module.functions.get(expr.name)
                poly = function is None or bool(function.type_params)
                return _VARIES if poly else _Same(expr.name, expr)
            case Var():
                if id(expr) in self.cells:
                    return self.cells[id(expr)]
                bound = self.bound.get(id(expr))
                return _VARIES if bound is None else self.value(bound, depth + 1)
            case Tuple():
                return self.tuple_value(expr, depth)
            case TupleGetItem():
                whole = self.value(expr.tuple_value, depth + 1)
                if isinstance(whole, _Same):
                    known = isinstance(whole.expr, Tuple)
                    part = whole.expr.fields[expr.index] if isinstance(whole.expr, Tuple) else expr
                    return self.value(part, depth + 1) if known else _VARIES
                return whole
        return _VARIES

    def tuple_value(self, expr: Tuple, depth: int) -> _Cell:
        parts = [self.value(f, depth + 1) for f in expr.fields]
        known = [p for p in parts if isinstance(p, _Same)]
        if any(p == _VARIES for p in parts):
            return _VARIES
        if len(known) < len(parts):
            return None
        return _Same(
            tuple(p.key for p in known),
            Tuple(tuple(p.expr for p in known), span=expr.span, checked_type=expr.checked_type),
        )

    def constants_of(self, function: Function) -> dict[int, Expr]:
        found = {}
        for param in function.params:
            cell = self.cells[id(param)]
            if isinstance(cell, _Same):
                found[id(param)] = cell.expr
        return found

    def is_changed(self, name: str) -> bool:
        """Return True if a parameter of a global function became a constant."""
        return bool(self.constants_of(self.module.functions[name]))

    def apply(self) -> Module:
        """Return the module with those parameters and their arguments gone."""
        changed: dict[int, dict[int, Expr]] = {}
        for _, callee in self.calls:
            constants = self.constants_of(callee)
            if constants:
                changed[id(callee)] = constants
        if not changed:
            return self.module
        values = {var: expr for constants in changed.values() for var, expr in constants.items()}
        # A let-bound function changes its type, so its name is a new variable without annotation.
        for node_var, local in self.locals.items():
            if id(local) in changed:
                old = self.variables[node_var]
                values[node_var] = replace(old, type_annotation=None, checked_type=None)
        callees = {id(call): callee for call, callee in self.calls if id(callee) in changed}

        def step(before: Expr, after: Expr) -> Expr:
            if isinstance(after, Var):
                return values.get(id(after), after)
            if isinstance(after, Call) and id(before) in callees:
                kept = [
                    arg
                    for param, arg in zip(callees[id(before)].params, after.args)
                    if id(param) not in values
                ]
                return replace(after, args=tuple(kept), type_args=())
            if isinstance(after, Let) and id(after.var) in values:
                renamed = values[id(after.var)]
                assert isinstance(renamed, Var)
                return replace(after, var=renamed)
            if isinstance(after, Function) and id(before) in changed:
                kept_params = tuple(p for p in after.params if id(p) not in values)
                return _with_sizes(replace(after, params=kept_params, checked_type=None), before)
            return after

        def _with_sizes(function: Function, before: Expr) -> Function:
            assert isinstance(before, Function)
            return _bind_sizes(function, before, changed[id(before)])

        functions = {}
        for name, function in self.module.functions.items():
            result = rebuild(function, step)
            assert isinstance(result, Function)
            functions[name] = result
        return self.module.with_functions(functions)


def _bind_sizes(function: Function, before: Function, constants: dict[int, Expr]) -> Function:
    """Replace size variables that stood in the type of a parameter that is a constant now."""
    dims: dict[DimVar, int] = {}
    for param in before.params:
        value = constants.get(id(param))
        type_ = param.type_annotation or param.checked_type
        if not isinstance(value, Constant) or not isinstance(type_, TensorType):
            continue
        for dim, size in zip(type_.shape, value.data.shape):
            variable = dim.variable if isinstance(dim, DimExpr) else None
            if variable is not None and variable in function.type_params:
                dims.setdefault(variable, size)
    if not dims:
        return function
    kept = tuple(p for p in function.type_params if p not in dims)
    types = TypeMap(dims=dims)
    kind = function.checked_type
    if isinstance(kind, FuncType):
        kind = replace(kind, type_params=kept)
    copy = Copier(types).copy(replace(function, type_params=kept, checked_type=kind))
    assert isinstance(copy, Function)
    return copy


def _mentions_type_var(type_: Type) -> bool:
    return any(isinstance(part, TypeVar) for part in type_walk(type_))
