"""`IRModule`: a program that can be changed, over the immutable `ir.Module`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from relayvm.base.diagnostics import Diagnostic, RelayError, error, quantity
from relayvm.base.dims import DimVar
from relayvm.base.source import Source
from relayvm.compiler.infer_types import infer_types
from relayvm.ir.expr import (
    NO_ATTRS,
    Attrs,
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    Op,
)
from relayvm.ir.module import Module, TypeData
from relayvm.ir.parser import parse_module
from relayvm.ir.prelude import import_from_std, prelude
from relayvm.ir.types import GlobalTypeVar
from relayvm.ir.visit import free_type_vars, post_order, rewrite
from relayvm.ops import OPS
from relayvm.relay.binders import free_variables, with_one_binder_each, with_own_binders
from relayvm.relay.ndarray import as_ndarray
from relayvm.relay.node import as_attrs, as_expr, as_mapping
from relayvm.relay.op_registry import all_operators
from relayvm.relay.text import astext

Name = Any  # a text, a GlobalVar or a GlobalTypeVar


class NamedMap(Mapping[Any, Any]):
    """A mapping whose keys are variables and are found by name, whichever object holds it."""

    def __init__(self, keys: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        self._keys = keys
        self._values = values

    def __getitem__(self, key: Name) -> Any:
        return self._values[_name_of(key)]

    def __iter__(self) -> Iterator[Any]:
        return (self._keys[name] for name in self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: object) -> bool:
        return _name_of(key) in self._values

    def __repr__(self) -> str:
        return f"{{{', '.join(self._values)}}}"


def _name_of(key: Name) -> str:
    return str(getattr(key, "name", key)).removeprefix("@")


class UnknownName(RelayError, ValueError):
    """A module is asked for a name that it does not have."""


class IRModule:
    """Functions and data types by name. Setting one changes the module; passes return new ones."""

    def __init__(
        self,
        functions: Mapping[Name, Function] | None = None,
        type_definitions: Mapping[Name, TypeData] | None = None,
        attrs: Mapping[str, Any] | None = None,
        global_infos: Mapping[str, Any] | None = None,
    ) -> None:
        if global_infos:
            raise error("bad-option", "`global_infos` belong to Relax and mean nothing here")
        self._functions: dict[str, Function] = {}
        self._types: dict[str, TypeData] = {}
        self._library: frozenset[str] = frozenset()
        self._altered = False
        self._attrs = as_attrs(attrs)
        self._vars: dict[str, GlobalVar] = {}
        self._type_vars: dict[str, GlobalTypeVar] = {}
        self._module: Module | None = None
        for key, data in as_mapping(type_definitions, "`type_definitions`").items():
            self[key] = data
        for key, function in as_mapping(functions, "`functions`").items():
            self[key] = function

    # --- the immutable module ------------------------------------------------------------

    @property
    def module(self) -> Module:
        """The program as passes take it."""
        if self._module is None:
            functions = with_own_binders(self._functions)
            self._module = Module(
                functions, self._types, self._library, self._attrs, altered=self._altered
            )
        return self._module

    def _changed(self) -> None:
        self._module = None

    # --- functions and types by name -----------------------------------------------------

    @property
    def functions(self) -> NamedMap:
        """The functions by their global variables."""
        return NamedMap({n: self._var(n) for n in self._functions}, dict(self._functions))

    @property
    def type_definitions(self) -> NamedMap:
        """The data types by their names."""
        return NamedMap({n: self._type_var(n) for n in self._types}, dict(self._types))

    @property
    def attrs(self) -> Attrs | None:
        """The attributes of the module; None where it has none."""
        return self._attrs or None

    def functions_items(self) -> list[tuple[GlobalVar, Function]]:
        """Return pairs of variable and function."""
        return [(self._var(name), function) for name, function in self._functions.items()]

    def __getitem__(self, var: Name) -> Any:
        """Return a function, or a data type where `var` is a GlobalTypeVar."""
        if isinstance(var, GlobalTypeVar):
            self.get_global_type_var(var.name)
            return self._types[var.name]
        return self._function(_name_of(var))

    def _function(self, name: str) -> Function:
        """Return a function; raises RelayError where the module has none of the name."""
        found = self._functions.get(name)
        if found is None:
            known = ", ".join(f"`@{n}`" for n in self._functions if n not in self._library)
            message = f"the module has no function `@{name}`; it has {known or 'none'}"
            raise UnknownName(Diagnostic("unknown-function", message))
        return found

    def __setitem__(self, var: Name, val: Any) -> None:
        """Put a function or a data type under a name, in the place of what was there."""
        self._put(var, val)

    def _put(self, var: Name, val: Any) -> None:
        name = _name_of(var)
        if isinstance(val, TypeData):
            self._types[name] = val
            self._type_vars.setdefault(name, val.header)
        else:
            if isinstance(var, GlobalVar):
                self._vars.setdefault(name, var)
            self._functions[name] = self._as_function(val)
        self._library -= {name}
        self._changed()

    def _as_function(self, val: Any) -> Function:
        expr = as_expr(val, "a module")
        if isinstance(expr, GlobalVar):
            return self._function(expr.name)
        made = with_one_binder_each(expr if isinstance(expr, Function) else Function((), expr))
        assert isinstance(made, Function)
        # A size that is written as a variable of TVM's stands for any: a parameter of the function.
        sizes = tuple(v for v in free_type_vars(made) if isinstance(v, DimVar))
        return replace(made, type_params=(*made.type_params, *sizes)) if sizes else made

    def __delitem__(self, var: Name) -> None:
        """Remove a function."""
        self._function(_name_of(var))
        del self._functions[_name_of(var)]
        self._changed()

    def __contains__(self, var: Name) -> bool:
        names = self._types if isinstance(var, GlobalTypeVar) else self._functions
        return _name_of(var) in names

    def __iter__(self) -> Iterator[GlobalVar]:
        return iter(self.functions)

    def __len__(self) -> int:
        return len(self._functions)

    def __bool__(self) -> bool:
        return True

    def update(self, other: IRModule | Mapping[Name, Function]) -> None:
        """Put the definitions of another module into this one."""
        if not isinstance(other, (IRModule, Module)):
            other = IRModule(other)
        self._merge(unwrap(other))

    def _merge(self, other: Module) -> None:
        kept = {n for n in self._functions.keys() | self._types.keys() if n not in self._library}
        self._types.update(other.types)
        self._functions.update(other.functions)
        self._library = (self._library | other.library) - (kept - other.library)
        self._changed()

    def update_func(self, var: Name, func: Function) -> None:
        """Put a function under a name, in the place of what was there."""
        self._put(var, func)

    # --- variables, types and constructors -----------------------------------------------

    def _var(self, name: str) -> GlobalVar:
        return self._vars.setdefault(name, GlobalVar(name))

    def _type_var(self, name: str) -> GlobalTypeVar:
        return self._type_vars.setdefault(name, self._types[name].header)

    def get_global_var(self, name: str) -> GlobalVar:
        """Return the variable of a function; the same one each time."""
        self._function(name)
        return self._var(name)

    def get_global_vars(self) -> list[GlobalVar]:
        """Return the variables of all functions."""
        return [self._var(name) for name in self._functions]

    def get_global_type_var(self, name: str) -> GlobalTypeVar:
        """Return the name of a data type as a type; raises RelayError `unknown-type`."""
        if name not in self._types:
            known = ", ".join(f"`{n}`" for n in self._types) or "none"
            message = f"the module has no type `{name}`; it has {known}"
            raise UnknownName(Diagnostic("unknown-type", message))
        return self._type_var(name)

    def get_global_type_vars(self) -> list[GlobalTypeVar]:
        """Return the names of all data types as types."""
        return [self._type_var(name) for name in self._types]

    def get_type(self, name: str) -> tuple[Any, ...]:
        """Return a data type's name as a type, followed by its constructors."""
        variable = self.get_global_type_var(name)
        return (variable, *self._types[name].constructors)

    def get_constructor(self, tag: int) -> Constructor:
        """Return the constructor with a tag."""
        for data in self._types.values():
            for constructor in data.constructors:
                if tag_of(constructor) == tag:
                    return constructor
        message = f"the module has no constructor with the tag {tag}"
        raise UnknownName(Diagnostic("unknown-constructor", message))

    # --- attributes ----------------------------------------------------------------------

    def with_attr(self, attr_key: str, attr_value: Any) -> IRModule:
        """Return a copy with one attribute set."""
        return self.with_attrs({attr_key: attr_value})

    def with_attrs(self, attr_map: Mapping[str, Any]) -> IRModule:
        """Return a copy with attributes set."""
        return self._copy(as_attrs({**self._attrs, **attr_map}))

    def without_attr(self, attr_key: str) -> IRModule:
        """Return a copy without an attribute."""
        return self._copy(Attrs({k: v for k, v in self._attrs.items() if k != attr_key}))

    def get_attr(self, attr_key: str) -> Any:
        """Return an attribute, or None."""
        return self._attrs.get(attr_key)

    def _copy(self, attrs: Attrs) -> IRModule:
        return wrap(replace(self.module, attrs=attrs), self)

    def clone(self) -> IRModule:
        """Return a copy; changes of one leave the other as it is."""
        return wrap(self.module, self)

    __copy__ = clone

    # --- making and importing ------------------------------------------------------------

    @staticmethod
    def from_expr(
        expr: Expr | IRModule,
        functions: Mapping[Name, Function] | None = None,
        type_defs: Mapping[Name, TypeData] | None = None,
    ) -> IRModule:
        """Return a module whose `main` is the expression: a function over its free variables,
        unless it is a function already.
        """
        if isinstance(expr, IRModule):
            return expr
        result = IRModule(functions, type_defs)
        root = as_expr(expr, "a module")
        if not isinstance(root, Function):
            root = Function(free_variables(root), root, None, free_type_vars(root))
        symbol = root.attrs.get("global_symbol")
        result[symbol if isinstance(symbol, str) else "main"] = root
        return result

    def import_from_std(self, file_to_import: str) -> IRModule:
        """Add the definitions of a file of the standard library, such as `prelude.rly`, and return
        the module with types.
        """
        self.take_from_std(file_to_import)
        return wrap(infer_types(self.module), self)

    def take_from_std(self, file_to_import: str) -> None:
        """Add the definitions of a file of the standard library."""
        self.adopt(import_from_std(self.module, file_to_import, OPS))

    def adopt(self, module: Module) -> None:
        """Become another program; global variables stay the objects that were handed out."""
        self._functions = dict(module.functions)
        self._types = dict(module.types)
        self._library = module.library
        self._altered = module.altered
        self._attrs = module.attrs
        self._changed()

    def _import(self, file_to_import: str) -> None:
        """Add the definitions of a file."""
        self._merge(_read(Path(file_to_import)))

    def replace_global_vars(self, replacements: Mapping[Name, Name]) -> IRModule:
        """Return a copy in which functions have other names, where they are defined and used."""
        names = {_name_of(old): _name_of(new) for old, new in replacements.items()}
        for name in names:
            self._function(name)

        def renamed(node: Expr) -> Expr:
            if isinstance(node, GlobalVar) and node.name in names:
                return replace(node, name=names[node.name])
            return node

        functions: dict[str, Function] = {}
        for name, function in self._functions.items():
            new = names.get(name, name)
            if new in functions:
                raise error("duplicate-name", f"two functions would be named `@{new}`")
            result = rewrite(function, renamed)
            assert isinstance(result, Function)
            functions[new] = result
        return wrap(replace(self.module, functions=functions))

    # --- text ----------------------------------------------------------------------------

    def astext(self, show_meta_data: bool = True, annotate: Any = None) -> str:
        """Return the program as text; what `annotate` returns of a node stands behind its text."""
        return astext(self.module, show_meta_data, annotate)

    def script(self, **_: Any) -> str:
        """Return the program as text."""
        return self.astext()

    def show(self, *_: Any, **__: Any) -> None:
        """Print the program."""
        print(self.astext())

    def same_as(self, other: object) -> bool:
        """Tell whether both are the same module."""
        return self is other

    def __reduce__(self) -> tuple[Any, tuple[Module]]:
        """Return how a copy or pickle is made: from that of the module."""
        return wrap, (self.module,)

    def __str__(self) -> str:
        return self.astext(show_meta_data=False)

    def __repr__(self) -> str:
        functions = quantity(len(self._functions), "function")
        return f"<IRModule of {functions}, {quantity(len(self._types), 'type')}>"


def _read(path: Path) -> Module:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as reason:
        raise error("unreadable-file", f"`{path}` cannot be read: {reason.strerror}") from None
    operators = all_operators()
    return parse_module(Source(str(path), text), operators, prelude(operators))


def tag_of(constructor: Constructor) -> int:
    """Return the tag: a byte of a hash of the type's name above the place in the definition."""
    return tag_in(constructor.belong_to.name, constructor.index)


def tag_in(type_name: str, index: int) -> int:
    """Return the tag of the constructor of a type at a place in its definition."""
    high = hashlib.blake2b(type_name.encode(), digest_size=1).digest()[0] << 24
    return (high - (1 << 32) if high >= 1 << 31 else high) | index


def wrap(module: Module, like: IRModule | None = None) -> IRModule:
    """Return an IRModule over a module; global variables stay the objects that `like` hands out."""
    result = IRModule()
    result._functions = dict(module.functions)
    result._types = dict(module.types)
    result._library = module.library
    result._altered = module.altered
    result._attrs = module.attrs or NO_ATTRS
    result._module = module
    if like is not None:
        result._vars = like._vars
    for function in module.functions.values():
        present(function)
    return result


def unwrap(value: Any) -> Module:
    """Return the immutable module of an IRModule, or of an expression as `main`."""
    if isinstance(value, IRModule):
        return value.module
    if isinstance(value, Module):
        return value
    return IRModule.from_expr(value).module


def present(expr: Expr) -> None:
    """Let an expression answer as TVM's: constants `.numpy()`, calls all attributes of their
    operator.

    Not a change of the program: the arrays are the same, seen through another class, and attributes
    that equal their default may as well be there.
    """
    for node in post_order(expr):
        if isinstance(node, Constant):
            array = as_ndarray(node.data)
            if array is not node.data:
                object.__setattr__(node, "data", array)
        elif isinstance(node, Call) and isinstance(node.op, Op):
            _complete(node, node.op)


def _complete(call: Call, op: Op) -> None:
    if len(call.attrs) < len(op.attributes):
        defaults = {row.name: row.default for row in op.attributes if not row.required}
        object.__setattr__(call, "attrs", Attrs({**defaults, **call.attrs}))
