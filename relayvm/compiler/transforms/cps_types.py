"""Types in continuation-passing style: `fn (A) -> B` is `fn (A, fn (B) -> Ans) -> Ans`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from relayvm.compiler.transforms.copies import Copier, TypeMap
from relayvm.ir.expr import Constructor, Expr, GlobalVar, PatternConstructor
from relayvm.ir.module import Module, TypeData
from relayvm.ir.types import (
    FuncType,
    GlobalTypeVar,
    Type,
    TypeCall,
    TypeVar,
)
from relayvm.ir.visit import type_walk


@dataclass(slots=True)
class Answers:
    """The data types that hold functions, by old name, with the type of the answer as their last
    parameter.
    """

    types: dict[str, TypeData] = field(default_factory=dict)

    def constructor(self, old: Constructor) -> Constructor:
        """Return the constructor that stands for another."""
        data = self.types.get(old.belong_to.name)
        return old if data is None else data.constructors[old.index]


class CpsTypes(TypeMap):
    """The mapping of types for one type of answers."""

    def __init__(self, answer: Type, answers: Answers) -> None:
        super().__init__()
        self.answer = answer
        self.answers = answers

    def data(self, type_: GlobalTypeVar | TypeCall, args: tuple[Type, ...]) -> Type:
        """Return the data type, with the answer where it holds functions."""
        head = type_.func if isinstance(type_, TypeCall) else type_
        data = self.answers.types.get(head.name)
        if data is None:
            return super().data(type_, args)
        return TypeCall(data.header, (*args, self.answer), span=type_.span)

    def function(self, type_: FuncType) -> Type:
        """Return the type of functions that take a continuation and give the answer."""
        after = FuncType((type_.ret_type,), self.answer)
        return replace(type_, arg_types=(*type_.arg_types, after), ret_type=self.answer)


class CpsCopier(Copier):
    """Copies an expression with the types, constructors and globals of the new style."""

    def __init__(self, types: CpsTypes, answers: Answers, names: Mapping[str, str]) -> None:
        super().__init__(types)
        self.answers = answers
        self.names = names

    def leaf(self, node: Expr) -> Expr:
        """Return what stands for a global or constructor."""
        if isinstance(node, GlobalVar):
            return replace(node, name=self.names.get(node.name, node.name), checked_type=None)
        if isinstance(node, Constructor):
            return replace(self.answers.constructor(node), checked_type=None)
        return super().leaf(node)

    def constructor(self, constructor: Constructor, pattern: PatternConstructor) -> Constructor:
        """Return what stands for the constructor of a pattern."""
        return self.answers.constructor(constructor)


def data_with_functions(module: Module) -> dict[str, TypeData]:
    """Return the data types that hold functions, whatever their arguments."""
    users: dict[str, list[str]] = {}
    waiting: list[str] = []
    for name, data in module.types.items():
        seen: set[int] = set()
        for type_ in (t for c in data.constructors for t in c.inputs):
            for part in type_walk(type_, seen):
                if isinstance(part, FuncType):
                    waiting.append(name)
                elif isinstance(part, (GlobalTypeVar, TypeCall)):
                    users.setdefault(_data_name(part), []).append(name)
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += users.get(name, ())
    return {name: data for name, data in module.types.items() if name in found}


def holds_functions(type_: Type, data: Collection[str], seen: set[int] | None = None) -> bool:
    """Return True if values of a type are or hold functions; `data` names data types that do.
    Parts are not looked at again whose ids are in `seen`, which grows.
    """
    for part in type_walk(type_, seen):
        if isinstance(part, FuncType):
            return True
        if isinstance(part, (GlobalTypeVar, TypeCall)) and _data_name(part) in data:
            return True
    return False


def _data_name(type_: GlobalTypeVar | TypeCall) -> str:
    return type_.func.name if isinstance(type_, TypeCall) else type_.name


def data_with_answers(module: Module, data: Mapping[str, TypeData]) -> Answers:
    """Return new definitions for the data types that hold functions."""
    answers = Answers()
    taken = {c.name for d in module.types.values() for c in d.constructors} | set(module.types)
    for name, old in data.items():
        header = replace(old.header, name=_fresh(f"{name}_cps", taken))
        constructors = tuple(
            replace(c, name=_fresh(f"{c.name}_cps", taken), belong_to=header)
            for c in old.constructors
        )
        answers.types[name] = replace(old, header=header, constructors=constructors)
    for name, new in list(answers.types.items()):
        answer = TypeVar("Ans")
        types = CpsTypes(answer, answers)
        constructors = tuple(
            replace(c, inputs=tuple(types(t) for t in c.inputs)) for c in new.constructors
        )
        renamed = {p: TypeVar(p.name, p.kind) for p in new.type_params if isinstance(p, TypeVar)}
        params = tuple(renamed[p] if isinstance(p, TypeVar) else p for p in new.type_params)
        fresh = TypeMap(renamed)
        constructors = tuple(
            replace(c, inputs=tuple(fresh(t) for t in c.inputs)) for c in constructors
        )
        answers.types[name] = replace(new, type_params=(*params, answer), constructors=constructors)
    return answers


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name
