"""Checks that a module is well-formed: scopes, binders, names, kinds and, where asked, the types
of all nodes.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from relayvm.base.diagnostics import Diagnostic, DiagnosticSink, Note, quantity
from relayvm.base.dims import DimVar
from relayvm.base.dtypes import BOOL, BY_NAME
from relayvm.base.narrow.host import name_of
from relayvm.base.source import Span
from relayvm.ir.expr import (
    Attrs,
    Call,
    Clause,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    Pattern,
    PatternConstructor,
    PatternVar,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from relayvm.ir.module import Module, TypeData
from relayvm.ir.printer import print_type
from relayvm.ir.scope import Scope, Scopes
from relayvm.ir.types import (
    RESERVED_NAMES,
    UNIT,
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    Kind,
    RefType,
    ShapeArg,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeParam,
    TypeRelation,
    TypeVar,
    scalar_type,
)
from relayvm.ir.visit import (
    LEAVES,
    TypeVariables,
    attr_variables,
    free_type_vars,
    node_types,
    pattern_vars,
    pattern_walk,
    post_order,
    type_children,
)


def verify_module(module: Module, *, typed: bool = False) -> None:
    """Raise RelayError `ill-formed` with everything that is wrong with the structure of `module`.

    Each variable has one binder in the module and is used in its scope; functions, data types and
    constructors that are named exist; type parameters are in scope and of the right kind. With
    `typed`, every expression carries a type without holes, and the types of neighbours agree where
    the node itself decides them.
    """
    check = _Verifier(module, typed)
    for data in module.types.values():
        check.data(data)
    for name, function in module.functions.items():
        check.function(name, function)
    check.sink.raise_if_any()


def verify_names(module: Module) -> None:
    """Raise RelayError `ill-formed` for constants that are no tensors, constructors that the data
    types of the module do not have and type parameters that nothing introduces: no text names
    such, programs built in Python may.
    """
    check = _Verifier(module, typed=False)
    for name, function in module.functions.items():
        check.where = f" in `@{name}`"
        for variable in free_type_vars(function):
            what = "" if isinstance(variable, TypeVar) else "dim "
            check.fail(f"{what}`{variable.name}` is not a type parameter", function.span)
        for node in post_order(function):
            if isinstance(node, (Constant, Constructor)):
                check.leaf(node)
            elif isinstance(node, Match):
                for clause in node.clauses:
                    check.constructors(clause)
    check.sink.raise_if_any()


class _Verifier:
    def __init__(self, module: Module, typed: bool) -> None:
        self.module = module
        self.typed = typed
        self.sink = DiagnosticSink()
        self.binders: dict[Var, Span | None] = {}
        self.where = ""
        # Types without holes, those whose data types are known, and pairs that agree; by identity,
        # so that types which grow from node to node are looked at once. They are kept: ids of dead
        # ones would come again.
        self._whole: dict[int, Type] = {}
        self._variables = TypeVariables()
        self._sound: dict[int, Type] = {}
        self._agreeing: dict[tuple[int, int], tuple[Type, Type]] = {}

    def fail(self, message: str, span: Span | None, notes: Iterable[Note] = ()) -> None:
        self.sink.add(Diagnostic("ill-formed", f"{message}{self.where}", span, "", tuple(notes)))

    # --- data types ----------------------------------------------------------------------

    def data(self, data: TypeData) -> None:
        self.where = f" in type `{data.header.name}`"
        if data.header.name in RESERVED_NAMES:
            why = RESERVED_NAMES[data.header.name]
            self.fail(f"no type can have the name `{data.header.name}`: {why}", data.span)
        for index, constructor in enumerate(data.constructors):
            if constructor.belong_to.name != data.header.name or constructor.index != index:
                self.fail(
                    f"constructor `{constructor.name}` does not belong here", constructor.span
                )
            for field in constructor.inputs:
                self.type(field, set(data.type_params), constructor.span)

    # --- functions -----------------------------------------------------------------------

    def function(self, name: str, function: Function) -> None:
        """Check one global function."""
        self.where = f" in `@{name}`"
        scopes = Scopes(function)
        binding: dict[Var, Scope] = {}
        params: dict[TypeParam, Scope] = {}
        for node in scopes.nodes:
            self._bind(node, scopes, binding, params)
        for node in scopes.nodes:
            self._in_scope(node, scopes, binding, params)
            self._node(node)
            if self.typed:
                self._typed(node)

    def _bind(
        self,
        node: Expr,
        scopes: Scopes,
        binding: dict[Var, Scope],
        params: dict[TypeParam, Scope],
    ) -> None:
        match node:
            case Let():
                recursive = isinstance(node.value, Function)
                region = scopes.inner[id(node)] if recursive else scopes.binding[id(node)][0]
                self._binder(node.var, region, binding)
            case Function():
                body = scopes.binding[id(node)][0]
                for param in node.params:
                    self._binder(param, body, binding)
                for type_param in node.type_params:
                    if type_param in params:
                        self.fail(
                            f"type parameter `{type_param.name}` is introduced twice", node.span
                        )
                    params[type_param] = body
            case Match():
                for clause, region in zip(node.clauses, scopes.binding[id(node)]):
                    for var in pattern_vars(clause.lhs):
                        self._binder(var, region, binding)
            case _:
                pass

    def _binder(self, var: Var, region: Scope, binding: dict[Var, Scope]) -> None:
        if var in self.binders:
            self.fail(f"variable `%{var.name}` has two binders", var.span)
        self.binders[var] = var.span
        binding[var] = region

    def _in_scope(
        self,
        node: Expr,
        scopes: Scopes,
        binding: dict[Var, Scope],
        params: dict[TypeParam, Scope],
    ) -> None:
        here = scopes.of[id(node)]
        if isinstance(node, Var):
            region = binding.get(node)
            if region is None or not region.encloses(here):
                known = "is not bound" if region is None else "is used outside of its scope"
                self.fail(f"variable `%{node.name}` {known}", node.span)
            return
        if isinstance(node, Function):
            here = scopes.binding[id(node)][0]
        for type_ in node_types(node):
            variables = self._variables(type_)
            visible = {v for v in variables if v in params and params[v].encloses(here)}
            if id(type_) not in self._sound or len(visible) < len(variables):
                self.type(type_, visible, node.span)
        if isinstance(node, Call):
            for value in node.attrs.values():
                for dim in attr_variables(value):
                    if dim not in params or not params[dim].encloses(here):
                        self.fail(f"dim `{dim.name}` is not a type parameter here", node.span)

    # --- types ---------------------------------------------------------------------------

    def type(self, root: Type, visible: set[TypeParam], outer: Span | None) -> None:
        """Check the names and kinds in a type."""
        if any(variable not in visible for variable in self._variables(root)):
            self._invisible(root, visible, outer)
        seen: dict[int, Type] = {}
        failures = len(self.sink.diagnostics)
        waiting = [root]
        while waiting:
            type_ = waiting.pop()
            if id(type_) in self._sound or id(type_) in seen:
                continue
            seen[id(type_)] = type_
            if isinstance(type_, GlobalTypeVar):
                self._data_type(type_, (), type_.span or outer)
            elif isinstance(type_, TypeCall):
                self._data_type(type_.func, type_.args, type_.span or outer)
            waiting.extend(reversed(type_children(type_)))
        if len(self.sink.diagnostics) == failures:
            self._sound.update(seen)

    def _invisible(self, root: Type, visible: set[TypeParam], outer: Span | None) -> None:
        """Report the variables in a type that are no type parameters where it stands."""
        # A part is looked at once with what function types around it have for parameters.
        seen: set[tuple[int, frozenset[TypeParam]]] = set()
        waiting = [(root, frozenset(visible))]
        while waiting:
            type_, known = waiting.pop()
            lacking = [v for v in self._variables(type_) if v not in known]
            if not lacking or (id(type_), known) in seen:
                continue
            seen.add((id(type_), known))
            below = type_children(type_)
            if isinstance(type_, TypeRelation):
                lacking = [v for v in attr_variables(Attrs(type_.attrs)) if v not in known]
            for variable in lacking if not below or isinstance(type_, TypeRelation) else ():
                what = "" if isinstance(variable, TypeVar) else "dim "
                message = f"{what}`{variable.name}` is not a type parameter here"
                self.fail(message, type_.span or outer)
            if isinstance(type_, FuncType):
                known = known.union(type_.type_params)
            waiting.extend((part, known) for part in reversed(below))

    def _data_type(
        self,
        head: GlobalTypeVar,
        arguments: tuple[Type, ...],
        span: Span | None,
    ) -> None:
        data = self.module.types.get(head.name)
        if data is None:
            self.fail(f"the module has no type `{head.name}`", span)
            return
        if len(arguments) != len(data.type_params):
            parameters = quantity(len(data.type_params), "parameter")
            self.fail(f"type `{head.name}` has {parameters}, not {len(arguments)}", span)
        for param, argument in zip(data.type_params, arguments):
            is_dim = isinstance(argument, ShapeArg)
            hole = isinstance(argument, IncompleteType)
            if is_dim != isinstance(param, DimVar) and not hole:
                wanted = Kind.SHAPE_VAR if isinstance(param, DimVar) else Kind.TYPE
                self.fail(
                    f"argument `{param.name}` of `{head.name}` is of kind {wanted.value}", span
                )

    # --- nodes ---------------------------------------------------------------------------

    def _node(self, node: Expr) -> None:
        match node:
            case GlobalVar():
                if node.name not in self.module.functions:
                    self.fail(f"the module has no function `@{node.name}`", node.span)
            case Constructor() | Constant():
                self.leaf(node)
            case TupleGetItem():
                if node.index < 0:
                    self.fail(f"there is no tuple field {node.index}", node.span)
            case Match():
                for clause in node.clauses:
                    self._pattern(clause.lhs, clause)
            case _:
                pass

    def leaf(self, node: Constant | Constructor) -> None:
        """Check what stands for itself."""
        if isinstance(node, Constructor):
            self._constructor(node, node.span)
            return
        known = isinstance(node.data, np.ndarray) and name_of(node.data.dtype) in BY_NAME
        if not known or not node.data.dtype.isnative:
            self.fail("a constant is no tensor of a known element type", node.span)

    def constructors(self, clause: Clause) -> None:
        """Check the constructors of a clause."""
        for part in pattern_walk(clause.lhs):
            if isinstance(part, PatternConstructor):
                self._constructor(part.constructor, part.span or clause.span)

    def _constructor(self, constructor: Constructor, span: Span | None) -> None:
        data = self.module.types.get(constructor.belong_to.name)
        rows = data.constructors if data else ()
        index = constructor.index
        if not 0 <= index < len(rows) or rows[index].name != constructor.name:
            self.fail(
                f"type `{constructor.belong_to.name}` has no constructor `{constructor.name}`", span
            )

    def _pattern(self, pattern: Pattern, clause: Clause) -> None:
        for part in pattern_walk(pattern):
            span = part.span or clause.span
            if isinstance(part, PatternConstructor):
                self._constructor(part.constructor, span)
                if len(part.patterns) != len(part.constructor.inputs):
                    has = quantity(len(part.constructor.inputs), "field")
                    name, given = part.constructor.name, len(part.patterns)
                    self.fail(f"constructor `{name}` has {has}, not {given}", span)
            elif isinstance(part, PatternVar) and self.typed and part.var.checked_type is None:
                self.fail(f"variable `%{part.var.name}` has no type", part.span)

    # --- types of nodes ------------------------------------------------------------------

    def _typed(self, node: Expr) -> None:
        if isinstance(node, LEAVES) and not isinstance(node, (Var, Constant)):
            return
        if node.checked_type is None:
            self.fail(f"a {type(node).__name__} has no type", node.span)
            return
        if self._has_hole(node.checked_type):
            shown = print_type(node.checked_type)
            self.fail(f"the type `{shown}` of a {type(node).__name__} has holes", node.span)
        expected = _expected_type(node)
        if expected is not None and not self._compatible(node.checked_type, expected):
            self.fail(
                f"a {type(node).__name__} has type `{print_type(node.checked_type)}`, "
                f"but its parts make `{print_type(expected)}`",
                node.span,
            )
        if isinstance(node, If) and node.cond.checked_type not in (None, scalar_type(BOOL)):
            self.fail("the condition is no rank-0 bool", node.cond.span)

    def _has_hole(self, type_: Type) -> bool:
        waiting, seen = [type_], {}
        while waiting:
            part = waiting.pop()
            if isinstance(part, IncompleteType):
                return True
            below = type_children(part)
            if below and id(part) not in self._whole and id(part) not in seen:
                seen[id(part)] = part
                waiting.extend(below)
        self._whole.update(seen)
        return False

    def _compatible(self, a: Type, b: Type) -> bool:
        """Tell whether two types agree but for dims, which inference may know better at one place
        than at another.
        """
        waiting, seen = [(a, b)], {}
        while waiting:
            x, y = waiting.pop()
            key = (id(x), id(y))
            if x is y or key in self._agreeing or key in seen:
                continue
            match x, y:
                case TensorType(), TensorType():
                    fits = x.dtype is y.dtype and x.rank == y.rank
                case TypeCall(), TypeCall():
                    fits = x.func == y.func
                case (TupleType(), TupleType()) | (RefType(), RefType()):
                    below = type_children(x), type_children(y)
                    fits = len(below[0]) == len(below[1])
                    waiting.extend(zip(*below))
                    seen[key] = (x, y)
                case _:
                    fits = type(x) is type(y)
            if not fits:
                return False
        self._agreeing.update(seen)
        return True


def _expected_type(node: Expr) -> Type | None:
    """Return the type that the parts of a node make, where they alone decide it."""
    match node:
        case Let():
            return node.body.checked_type
        case Tuple():
            types = [f.checked_type for f in node.fields]
            return None if None in types else TupleType(tuple(t for t in types if t is not None))
        case TupleGetItem():
            whole = node.tuple_value.checked_type
            if isinstance(whole, TupleType):
                return whole.fields[node.index] if node.index < len(whole.fields) else UNIT
        case RefCreate() if node.value.checked_type is not None:
            return RefType(node.value.checked_type)
        case RefRead() if isinstance(node.ref.checked_type, RefType):
            return node.ref.checked_type.value
        case RefWrite():
            return UNIT
        case _:
            pass
    return None
