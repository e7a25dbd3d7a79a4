"""Polymorphic functions that are values become data, and all else has the instances it needs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from relayvm.base.diagnostics import RelayError, error
from relayvm.compiler.analysis.scopes import is_primitive
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.transforms.aligned_generics import with_aligned_params
from relayvm.compiler.transforms.copies import TypeMap
from relayvm.compiler.transforms.eta_expand import expanded
from relayvm.compiler.transforms.generic_casts import Casts, DeclaredTypes
from relayvm.compiler.transforms.instance_definitions import (
    InstanceCopier,
    InstanceTypes,
    Instantiation,
)
from relayvm.compiler.transforms.instances import (
    DEEPEST_NESTING,
    LIMITS,
    MOST_PARTS,
    Args,
    ClosedTypes,
    ErasedTypes,
    Instances,
    Limits,
    NotClosed,
    TooDeep,
    TooLarge,
    WithoutEnd,
    function_args,
    mangled,
    match_types,
    type_params_only,
)
from relayvm.compiler.transforms.lift_generics import Lifts, is_generic
from relayvm.compiler.transforms.to_anf import function_to_anf
from relayvm.ir.equal import structural_equal, structural_hash
from relayvm.ir.expr import (
    Attrs,
    Call,
    Clause,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    Let,
    Match,
    Op,
    PatternConstructor,
    PatternVar,
    Var,
)
from relayvm.ir.module import Module, TypeData
from relayvm.ir.types import UNIT, FuncType, GlobalTypeVar, Type, TypeCall, TypeParam, TypeVar
from relayvm.ir.visit import free_type_vars, free_vars, post_order, rebuild, substitute


def with_generics_as_data(module: Module) -> Module:
    """Return the instances that a program needs in which polymorphic functions are values.

    The values of one polymorphic type are a data type with a constructor for each function, that
    holds what it captures. For each type that values of it are called at there is a function that
    does so: a value is made before it is known at which types, but which functions may be called
    at a type is known from its own. `%f[int32](%x)` -> `@apply_Any0_int32(%f, %x)`. Requires TYPED.
    Raises RelayError `polymorphic-entry` where the types have no end, or hold others than they say.
    """
    try:
        made = _Makers(module)
        new = _Definitions(made.module(), made).module()
    except NotClosed as limit:
        raise _refusal(module, limit) from None
    attrs = Attrs({name: value for name, value in new.attrs.items() if name != "uniform"})
    functions = {name: replace(f, checked_type=None) for name, f in new.functions.items()}
    return infer_types(replace(new, functions=functions, attrs=attrs), late=True)


def _refusal(module: Module, limit: NotClosed) -> RelayError:
    """Return the error that tells why the functions of a program cannot be listed."""
    reason, place = str(limit), limit.span if isinstance(limit, WithoutEnd) else None
    if isinstance(limit, (TooLarge, TooDeep)) and not _grows_without_end(module):
        if isinstance(limit, TooLarge):
            message = f"a type argument has more than {MOST_PARTS:,} parts"
            return error("too-large-type", message, place)
        message = f"a type argument nests deeper than {DEEPEST_NESTING} levels"
        return error("too-deep", message, place)
    if isinstance(limit, WithoutEnd):
        reason = "the types of this program grow without end"
    return error("polymorphic-entry", f"{reason}: its functions cannot be listed", place)


def _grows_without_end(module: Module) -> bool:
    """Tell whether it is not for the size of its types alone that the instances do not close.

    Types share their parts, so that any size costs no more than what is written of it.
    """
    made = _Makers(module)
    limits = Limits(depth=math.inf, parts=math.inf)
    try:
        _Needed(made.module(), made, _ValueTypes(made.names), limits).collect()
    except NotClosed as limit:
        return not isinstance(limit, (TooLarge, TooDeep))
    return False


# -- The program with functions that make the values ----------------------------------------------


class _Makers:
    """Lets polymorphic functions be values of calls: `@make_f[A](%a)` makes one that holds `%a`."""

    def __init__(self, module: Module) -> None:
        self.old = module
        self.names = {*module.functions, *module.types}
        self.names |= {c.name for d in module.types.values() for c in d.constructors}
        self.lifts = Lifts(self.names, all_values=True)
        self.codes: dict[str, str] = {}
        self.functions: dict[str, Function] = {}

    def module(self) -> Module:
        """Return the program; `codes` has the names of the functions that make values then, and
        those of the functions whose values they make.
        """
        casts, declared = Casts(self.old, self.names), DeclaredTypes(self.old)
        lifted: dict[str, Function] = {}
        for name, function in self.old.functions.items():
            if is_primitive(function):
                self.functions[name] = function
                continue
            named = declared.applied(with_aligned_params(function, self.old))
            named = function_to_anf(expanded(named, (Constructor, GlobalVar), self.old))
            lifted[name] = self.lifts.run(name, function_to_anf(casts.run(named)))
        for name, function in casts.data.finished():
            lifted[name] = self.lifts.run(name, function_to_anf(function))
        lifted.update(self.lifts.functions)
        for name, function in lifted.items():
            values = expanded(function, (GlobalVar,), self.old)
            new = replace(values, body=rebuild(values.body, self.step))
            self.functions[name] = function_to_anf(new)
        return self.old.with_functions(self.functions)

    def step(self, before: Expr, after: Expr) -> Expr:
        if isinstance(after, Call) and isinstance(after.op, (GlobalVar, Constructor)):
            kind = after.op.checked_type
            if isinstance(kind, FuncType) and type_params_only(kind.type_params):
                # There is no value of the general type.
                return replace(after, op=replace(after.op, checked_type=None))
        if not is_generic(after):
            return after
        assert isinstance(after, Function) and isinstance(after.body, Call)
        code = after.body.op
        assert isinstance(code, GlobalVar)
        return self.made(after, code.name)

    def made(self, function: Function, code: str) -> Call:
        """Return the call that makes the value of a function, which is one call of `code`."""
        name = fresh(f"make_{code}", self.names)
        self.codes[name] = code
        captures = free_vars(function)
        outer = type_params_only(_free_params(function))
        own = {v: Var(v.name, _type(v), span=v.span, checked_type=_type(v)) for v in captures}
        kind = function.checked_type
        assert isinstance(kind, FuncType)
        maker = FuncType(tuple(map(_type, captures)), kind, outer)
        params = tuple(own.values())
        body = substitute(function, dict(own))
        self.functions[name] = Function(
            params, body, kind, outer, span=function.span, checked_type=maker
        )
        callee = GlobalVar(name, span=function.span)
        return Call(callee, captures, type_args=outer, span=function.span, checked_type=kind)


def _free_params(function: Function) -> tuple[TypeParam, ...]:
    """Return the type parameters around a function that is one call, in the order of its code."""
    assert isinstance(function.body, Call)
    given = [v for arg in function.body.type_args for v in free_type_vars(arg)]
    return tuple(dict.fromkeys(v for v in given if v not in set(function.type_params)))


# -- Which values there are -----------------------------------------------------------------------


@dataclass(slots=True)
class _Values:
    """The values of one polymorphic type: how they are made, and at which types they are called."""

    header: GlobalTypeVar
    kind: FuncType
    bare: FuncType
    makers: dict[tuple[str, Args], None] = field(default_factory=dict)
    uses: dict[Args, None] = field(default_factory=dict)

    @property
    def type(self) -> TypeCall:
        """The type of these values."""
        return TypeCall(self.header, ())


class _ValueTypes:
    """The data types that stand for polymorphic types."""

    def __init__(self, names: set[str]) -> None:
        self.names = names
        self.by_name: dict[str, _Values] = {}
        self.by_hash: dict[int, list[_Values]] = {}
        self.close = ClosedTypes()
        self.erase = ErasedTypes()

    def of(self, type_: FuncType) -> Type:
        """Return the data type of a function type, if this is polymorphic and depends on nothing
        around it.
        """
        params = type_params_only(type_.type_params)
        if not params:
            return type_
        plain = replace(type_, type_params=params, type_constraints=())
        bare, kind = self.erase(plain), self.close(plain)
        assert isinstance(bare, FuncType) and isinstance(kind, FuncType)
        if free_type_vars(bare):
            return type_
        known = self.by_hash.setdefault(structural_hash(bare), [])
        found = next((v for v in known if structural_equal(v.bare, bare)), None)
        if found is None:
            header = GlobalTypeVar(fresh(f"Any{len(self.by_name)}", self.names))
            found = self.by_name[header.name] = _Values(header, kind, bare)
            known.append(found)
        elif not structural_equal(found.kind, kind):
            found.kind = found.bare
        return found.type


class _Closing(ClosedTypes):
    def __init__(self, values: _ValueTypes, types: Mapping[TypeVar, Type]) -> None:
        super().__init__(types)
        self.values = values

    def function(self, type_: FuncType) -> Type:
        return self.values.of(type_)


class _Binding(TypeMap):
    def __init__(self, values: _ValueTypes) -> None:
        super().__init__()
        self.values = values

    def function(self, type_: FuncType) -> Type:
        return self.values.of(type_)


class _Needed(Instances):
    """The instances of a program, and the polymorphic values in it."""

    __slots__ = ("codes", "values")

    def __init__(
        self, module: Module, made: _Makers, values: _ValueTypes, limits: Limits = LIMITS
    ) -> None:
        super().__init__(module, limits)
        self.codes = made.codes
        self.values = values

    def closing(self, types: Mapping[TypeVar, Type]) -> TypeMap:
        close = _Closing(self.values, {})
        return _Closing(self.values, {p: close(t) for p, t in types.items()})

    def strict_params(self, name: str) -> set[TypeVar]:
        """Return none: the code of a value has the sizes that all values of its type have."""
        return set()

    def collect(self) -> None:
        super().collect()
        for values in list(self.values.by_name.values()):
            for args in values.uses:
                # Types of values that differ in sizes are those of none of them.
                closed = self.closing(dict(zip(type_params_only(values.kind.type_params), args)))
                for type_ in (*values.kind.arg_types, values.kind.ret_type):
                    self.visit_type(closed(type_))
        super().collect()

    def need_data(self, name: str, args: Args) -> None:
        if name not in self.values.by_name:
            super().need_data(name, args)

    def visit_function(self, name: str, args: Args) -> None:
        function = self.module.functions[name]
        closed = self.closing(dict(zip(type_params_only(function.type_params), args)))
        if name in self.codes:
            values = self.values_of(function.ret_type, closed)
            values.makers[name, args] = None
            for use in values.uses:
                self.need_function(self.codes[name], (*args, *use))
            return
        super().visit_function(name, args)
        for node in post_order(function):
            if isinstance(node, Call) and calls_value(node):
                values, use = self.use(node, closed)
                if use not in values.uses:
                    values.uses[use] = None
                    for maker, held in values.makers:
                        self.need_function(self.codes[maker], (*held, *use))

    def values_of(self, type_: Type | None, closed: TypeMap) -> _Values:
        """Return the values of a polymorphic type."""
        found = closed.optional(type_)
        if not isinstance(found, TypeCall):
            raise NotClosed("a type argument is not determined")
        return self.values.by_name[found.func.name]

    def use(self, call: Call, closed: TypeMap) -> tuple[_Values, Args]:
        """Return the values that a call may be of, and the types that it is at."""
        kind = call.op.checked_type
        assert isinstance(kind, FuncType) and call.checked_type is not None
        params = type_params_only(kind.type_params)
        found: dict[TypeVar, Type] = {}
        if len(call.type_args) == len(kind.type_params):
            given = zip(kind.type_params, call.type_args)
            found = {p: a for p, a in given if isinstance(p, TypeVar)}
        else:
            takes = tuple(a.checked_type or UNIT for a in call.args)
            match_types(kind, FuncType(takes, call.checked_type), set(params), found)
        args = tuple(closed(found.get(p, UNIT)) for p in params)
        return self.values_of(kind, closed), args


def calls_value(call: Call) -> bool:
    """Return True for a call of a polymorphic function that is the value of an expression."""
    kind = call.op.checked_type
    if isinstance(call.op, (GlobalVar, Constructor, Op)) or not isinstance(kind, FuncType):
        return False
    return bool(type_params_only(kind.type_params))


# -- The instances --------------------------------------------------------------------------------


class _Definitions(Instantiation):
    """The definitions of instances, of the data types of values and of what calls these."""

    instances: _Needed

    def __init__(self, module: Module, made: _Makers) -> None:
        self.values = _ValueTypes(made.names)
        self.codes = made.codes
        super().__init__(module, _Needed(module, made, self.values))
        self.functions = [key for key in self.functions if key[0] not in self.codes]
        taken = made.names | set(self.function_names.values()) | set(self.types)
        taken |= {c.name for d in self.types.values() for c in d.constructors}
        self.makers: dict[tuple[str, Args], Constructor] = {}
        self.applies: dict[tuple[str, Args], str] = {}
        for values in self.values.by_name.values():
            stem = values.header.name
            for number, (name, args) in enumerate(values.makers):
                own = fresh(f"{stem}_{self.codes[name]}", taken)
                types = self.held(name, args)
                self.makers[name, args] = Constructor(own, types, values.header, number)
            for args in values.uses:
                suffix = "_".join(mangled(a) for a in args)[:60]
                self.applies[stem, args] = fresh(f"apply_{stem}_{suffix}", taken)

    def held(self, name: str, args: Args) -> tuple[Type, ...]:
        """Return the types of what a value holds."""
        function = self.old.functions[name]
        return tuple(self.plain(_type(p), function.type_params, args) for p in function.params)

    def plain(self, type_: Type, params: tuple[TypeParam, ...], args: Args) -> Type:
        """Return a type in a data type, where no parameter is in scope."""
        closed = self.instances.closing(dict(zip(type_params_only(params), args)))
        return self.renamed(closed(type_))

    def binding(self) -> TypeMap:
        return _Binding(self.values)

    def is_made(self, name: str) -> bool:
        return name in self.values.by_name

    def copier(self, types: InstanceTypes) -> InstanceCopier:
        return _Copier(self, types)

    def module(self) -> Module:
        module = super().module()
        functions, types = dict(module.functions), dict(module.types)
        for values in self.values.by_name.values():
            for args in values.uses:
                functions[self.applies[values.header.name, args]] = self.apply(values, args)
            constructors = tuple(self.makers[key] for key in values.makers)
            types[values.header.name] = TypeData(
                values.header, (), constructors or (never(values.header),)
            )
        return replace(module, functions=functions, types=types)

    def apply(self, values: _Values, args: Args) -> Function:
        """Return the function that calls values of a type at some types."""
        kind = values.kind
        takes = tuple(self.plain(t, kind.type_params, args) for t in kind.arg_types)
        gives = self.plain(kind.ret_type, kind.type_params, args)
        name = self.applies[values.header.name, args]
        cases = [
            (self.makers[key], self.function_names[self.codes[key[0]], (*key[1], *args)])
            for key in values.makers
        ]
        return apply_function(name, values.type, takes, gives, cases)


class _Copier(InstanceCopier):
    owner: _Definitions

    def _node(self, node: Expr, done: Mapping[int, Expr]) -> Expr:
        new = super()._node(node, done)
        if not isinstance(node, Call) or not isinstance(new, Call):
            return new
        owner = self.owner
        if isinstance(node.op, GlobalVar) and node.op.name in owner.codes:
            used = owner.old.functions[node.op.name]
            args = function_args(used, node, node.op, True, self.closed)
            return replace(new, op=owner.makers[node.op.name, args], type_args=())
        if not calls_value(node):
            return new
        values, args = owner.instances.use(node, self.closed)
        callee = GlobalVar(owner.applies[values.header.name, args], span=node.op.span)
        result = replace(new, op=callee, args=(new.op, *new.args), type_args=())
        known = Var("result", new.checked_type, span=node.span, checked_type=new.checked_type)
        if new.checked_type == owner.plain(values.kind.ret_type, values.kind.type_params, args):
            return result
        return Let(known, result, known, span=node.span, checked_type=new.checked_type)


# -- Functions as data ----------------------------------------------------------------------------


def apply_function(
    name: str,
    type_: Type,
    takes: tuple[Type, ...],
    gives: Type,
    cases: list[tuple[Constructor, str]],
) -> Function:
    """Return the function `name` that calls a function that is data: for each constructor there is
    a global, which takes what the constructor holds before the arguments.
    """
    target = Var("f", type_)
    args = tuple(Var(f"a{i}", t) for i, t in enumerate(takes))
    clauses: list[Clause] = []
    for constructor, callee in cases:
        held = tuple(Var(f"c{i}", t) for i, t in enumerate(constructor.inputs))
        pattern = PatternConstructor(constructor, tuple(PatternVar(v) for v in held))
        clauses.append(Clause(pattern, Call(GlobalVar(callee), (*held, *args))))
    if not clauses:
        assert isinstance(type_, TypeCall)
        again = Call(GlobalVar(name), (target, *args))
        clauses.append(Clause(PatternConstructor(never(type_.func)), again))
    return Function((target, *args), Match(target, tuple(clauses)), gives)


def never(header: GlobalTypeVar) -> Constructor:
    """Return the constructor of a type whose functions the program mentions and never makes."""
    return Constructor(f"{header.name}_none", (), header, 0)


def fresh(name: str, names: set[str]) -> str:
    """Return a name that is not used, and note it."""
    while name in names:
        name += "_"
    names.add(name)
    return name


def _type(var: Var) -> Type:
    kind = var.checked_type or var.type_annotation
    assert kind is not None
    return kind
