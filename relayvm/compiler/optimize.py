"""The upper half of a compilation: from a module as written to the form that is lowered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from relayvm.base.diagnostics import RelayError, error
from relayvm.base.dims import Dim, DimVar, symbol
from relayvm.base.source import Source
from relayvm.base.target import Target
from relayvm.compiler.analysis.operand_values import check_operand_values
from relayvm.compiler.analysis.tensor_sizes import check_sizes
from relayvm.compiler.analysis.variables import check_variables
from relayvm.compiler.entries import entry_names, told_type_params
from relayvm.compiler.passes import run_passes
from relayvm.compiler.transforms.eta_expand import wrap_bound_generics
from relayvm.compiler.transforms.instantiate import needs_uniform
from relayvm.ir.expr import Attrs, Call, Function, GlobalVar, Var
from relayvm.ir.module import Module
from relayvm.ir.parser import parse_type
from relayvm.ir.types import UNIT, FuncType, ShapeArg, TupleType, Type, TypeParam, TypeVar
from relayvm.ir.verify import verify_names
from relayvm.ir.visit import substitute_in_type
from relayvm.kernels.schedules.machine import dot_kind


@dataclass(frozen=True, slots=True)
class Lowered:
    """A module in lowered form, and the functions behind the names that the host calls, which
    `declared` has as the program wrote them.
    """

    module: Module
    entries: dict[str, str]
    declared: Module
    uniform: bool


def optimize(
    module: Module,
    *,
    opt_level: int = 3,
    entries: Iterable[str] | None = None,
    target: Target | None = None,
) -> Lowered:
    """Return the module after all passes of an optimisation level, for these entries.

    `entries` as in `relayvm.compile`; without a target no layout depends on one. Raises RelayError
    with every independent error.
    """
    if not isinstance(module, Module):
        message = f"a program is a `Module`, but `{type(module).__name__}` was given"
        own = isinstance(getattr(module, "module", None), Module)
        raise error(
            "bad-option",
            message,
            help="give its `.module`, or compile it with `relay.vm.compile`"
            if own
            else "`relayvm.parse` makes one of text or a file",
        )
    if isinstance(entries, str):
        raise error("bad-option", "`entries` is a list of names", help=f"write `[{entries!r}]`")
    if entries is not None:
        entries = tuple(entries) if isinstance(entries, Iterable) else (entries,)
        for name in entries:
            if not isinstance(name, str) or ("[" in name) != name.endswith("]"):
                message = f"an entry is a name such as `main` or `f[int32]`, not `{name}`"
                raise error("bad-option", message)
    check_variables(module)
    verify_names(module)
    typed = wrap_bound_generics(run_passes(_unlifted(module), ["infer_types"]))
    check_sizes(typed)
    check_operand_values(typed)
    names = entry_names(typed) if entries is None else tuple(entries)
    if not names or (entries is None and _is_polymorphic_main(typed)):
        raise _no_entry(typed)
    chosen: dict[str, str] = {}
    for name in names:
        typed, chosen[name] = _entry(typed, name)
    dots = dot_kind(target) if target is not None else ""
    attrs = Attrs(typed.attrs, entries=tuple(chosen.values()), dots=dots)
    lowered = run_passes(replace(typed, attrs=attrs), opt_level=opt_level)
    return Lowered(lowered, chosen, typed, needs_uniform(lowered))


def _unlifted(module: Module) -> Module:
    """Return the module with lifted functions, as a text that `relayvm opt` wrote has them, as
    functions that the host may call.
    """
    if not any(function.attrs.get("Closure") for function in module.functions.values()):
        return module
    functions = dict(module.functions)
    for name, function in module.functions.items():
        if function.attrs.get("Closure"):
            attrs = Attrs({n: v for n, v in function.attrs.items() if n != "Closure"})
            functions[name] = replace(function, attrs=attrs)
    return module.with_functions(functions)


def _is_polymorphic_main(module: Module) -> bool:
    """Tell whether the program has a `main` that no host can call, and names no entries itself."""
    main = module.functions.get("main")
    own = main is not None and "main" not in module.library and "entries" not in module.attrs
    return own and main is not None and bool(told_type_params(main))


def _no_entry(module: Module) -> RelayError:
    """Return the error for a program without entries; polymorphic functions could be some."""
    functions = {n: f for n, f in module.functions.items() if n not in module.library}
    for name in sorted(functions, key=lambda n: n != "main"):
        params = _type_params(functions[name])
        if params:
            return _polymorphic(name, functions[name], params)
    return error("no-entry", "the program has no function that could be called")


def _polymorphic(name: str, function: Function, params: Sequence[TypeVar]) -> RelayError:
    """Return the error for an entry with type parameters."""
    example = f"{name}[{', '.join('int32' for _ in params)}]"
    message = f"`@{name}` has type parameters and nothing says which to compile it for"
    way = f"name an instance: `entries=[{example!r}]`"
    return error("polymorphic-entry", message, function.span, help=way)


def _type_params(function: Function) -> list[TypeVar]:
    return [p for p in function.type_params if isinstance(p, TypeVar)]


def _entry(module: Module, name: str) -> tuple[Module, str]:
    """Return the module and the function that an entry names, added where it is an instance."""
    stem, bracket, rest = name.partition("[")
    function = module[stem]
    params = _type_params(function)
    if not bracket:
        if params and not told_type_params(function):
            units: dict[TypeVar, Type] = dict.fromkeys(params, UNIT)
            return _with_instance(module, stem, function, units)
        if params:
            example = f"{name}[{', '.join('int32' for _ in params)}]"
            message = f"`@{name}` has type parameters; name an instance as entry: `{example}`"
            raise error("polymorphic-entry", message, function.span)
        return module, name
    args = _type_args(module, f"({rest.removesuffix(']')},)", name)
    if len(args) != len(params):
        message = f"`@{stem}` has {len(params)} type parameters, `{name}` gives {len(args)}"
        raise error("polymorphic-entry", message, function.span)
    return _with_instance(module, stem, function, dict(zip(params, args)))


def _with_instance(
    module: Module, name: str, function: Function, values: dict[TypeVar, Type]
) -> tuple[Module, str]:
    """Return the module with an instance of a function, and the name of it."""
    own = f"{name}_entry"
    while own in module.functions:
        own += "_"
    wrapper = _instance(name, function, values)
    return module.with_functions({**module.functions, own: wrapper}), own


def _type_args(module: Module, text: str, name: str) -> tuple[Type, ...]:

    kind = parse_type(Source(f"entry `{name}`", text), module=module)
    assert isinstance(kind, TupleType)
    return kind.fields


def _instance(name: str, function: Function, values: dict[TypeVar, Type]) -> Function:
    """Return a function that calls a polymorphic one at these types."""
    kind = function.checked_type
    assert isinstance(kind, FuncType)
    known: dict[TypeParam, Type | Dim] = {}
    known.update(values.items())
    args = tuple(substitute_in_type(t, known) for t in kind.arg_types)
    result = substitute_in_type(kind.ret_type, known)
    params = tuple(
        Var(p.name, t, span=p.span, checked_type=t) for p, t in zip(function.params, args)
    )
    shapes = tuple(p for p in function.type_params if isinstance(p, DimVar))
    callee = GlobalVar(name, span=function.span, checked_type=FuncType(args, result))
    given = tuple(
        values[p] if isinstance(p, TypeVar) else ShapeArg(symbol(p)) for p in function.type_params
    )
    body = Call(
        callee,
        params,
        type_args=given,
        span=function.span,
        checked_type=result,
    )
    return Function(
        params,
        body,
        result,
        shapes,
        span=function.span,
        checked_type=FuncType(args, result, shapes),
    )
