"""From a module in lowered form to a program of the machine, with entries and manifest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from relayvm.base import __version__
from relayvm.base.target import Target
from relayvm.compiler.analysis.scopes import is_primitive
from relayvm.compiler.host.entry_types import EntryTypes
from relayvm.compiler.lower.bytecode import SourceTable, emit_bytecode
from relayvm.compiler.lower.kernels import signatures_of
from relayvm.compiler.lower.memory import make_memory_explicit
from relayvm.compiler.lower.select import Selector
from relayvm.compiler.lower.unit import Unit, is_lifted
from relayvm.compiler.transforms.name_sizes import with_open_sizes
from relayvm.ir.expr import Function
from relayvm.ir.module import Module
from relayvm.ir.types import FuncType, TupleType, Type
from relayvm.vm.manifest import Entry, Parameter, ValueType
from relayvm.vm.program import Program


def lower_module(
    module: Module,
    entries: Mapping[str, str],
    declared: Module,
    target: Target,
    *,
    opt_level: int = 3,
    native: bool = True,
    uniform: bool = False,
    output_names: Sequence[str] = (),
) -> Program:
    """Return the program of a module whose functions are in lowered form.

    Requires FUSED, MATCHES_COMPILED and CLOSURES_LIFTED. `entries` maps the names that the host
    calls to functions of the module, and of `declared`, which has their types as the program wrote
    them.
    """
    unit = Unit(module, uniform=uniform)
    for name, function in module.functions.items():
        if is_primitive(function):
            continue
        selector = Selector(unit, closure=is_lifted(function))
        emit = selector.closure_body if is_lifted(function) else selector.function
        unit.functions[name] = emit(name, function)
    types = EntryTypes(declared, unit.layouts)
    rows = tuple(_entry(types, name, declared[f], module[f]) for name, f in entries.items())
    while wrappers := unit.take_wrappers():
        for name, function in wrappers.items():
            unit.functions[name] = Selector(unit, closure=True).closure_body(name, function)
    kernels = unit.kernels.build(target, opt_level, native)
    make_memory_explicit(unit.functions, signatures_of(kernels), unit.layouts.layouts)
    sources = SourceTable()
    functions, layouts = emit_bytecode(unit.functions, unit.layouts.layouts, sources)
    numbers = {name: index for index, name in enumerate(unit.functions)}
    return Program(
        functions=functions,
        layouts=tuple(layouts),
        signatures=tuple(unit.layouts.signatures),
        constants=tuple(unit.constants),
        kernels=tuple(kernels),
        entries=tuple(
            Entry(e.name, numbers[entries[e.name]], e.parameters, e.result, e.results) for e in rows
        ),
        types=tuple(types.data_types.values()),
        sources=tuple(sources.texts),
        devices=(target.kind,),
        version=__version__,
    )


def _entry(types: EntryTypes, name: str, declared: Function, lowered: Function) -> Entry:
    kind, own = declared.checked_type, lowered.checked_type
    assert isinstance(kind, FuncType) and isinstance(own, FuncType), name

    def shown(type_: Type, own_type: Type) -> ValueType:
        return types.value_type(with_open_sizes(declared, type_), own_type)

    params = zip(declared.params, kind.arg_types, own.arg_types, strict=True)
    parameters = tuple(Parameter(p.name, shown(k, o)) for p, k, o in params)
    result = shown(kind.ret_type, own.ret_type)
    count = len(kind.ret_type.fields) if isinstance(kind.ret_type, TupleType) else 1
    names = ("output",) if count == 1 else tuple(f"output{i}" for i in range(count))
    return Entry(name, 0, parameters, result, names)
