"""Instances of functions for the sizes of their calls, where no function of all sizes will do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from relayvm.base.dims import ANY, Dim, DimVar
from relayvm.compiler.transforms.copies import Copier, TypeMap
from relayvm.compiler.transforms.size_casts import is_strict
from relayvm.compiler.transforms.sized_data import MOST_SIZES, Sizes, known_size, sized_name
from relayvm.ir.expr import Call, Expr, Function, GlobalVar, Let, Var
from relayvm.ir.module import Module
from relayvm.ir.types import FuncType, ShapeArg, Type, TypeParam
from relayvm.ir.visit import children, post_order, rebuild


def with_sized_instances(module: Module, *, is_open: bool) -> Module | None:
    """Give functions of sizes `n` an instance for the sizes, known or `?`, of each call.

    `@f(%x)` with `def @f[n](%x: Tensor[(n)])` and an `%x` of 8 -> `@f_8(%x)` with
    `def @f_8(%x: Tensor[(8)])`. Sizes that are symbols of the caller stay parameters, unless
    `is_open`: then what the host calls is at `?` inside, with its sizes compared on the way in and
    out. Returns None where a function has 100 instances or more, as where it calls itself with
    `n + 1`. Requires TYPED.
    """
    return _SizedInstances(module, is_open).run()


class _SizedInstances:
    def __init__(self, module: Module, is_open: bool) -> None:
        self.module = module
        self.is_open = is_open
        self.names = {*module.functions}
        self.made: dict[tuple[str, Sizes], str] = {}
        self.counts: dict[str, int] = {}
        self.finished: dict[str, Function] = {}
        self.waiting: list[tuple[str, Function]] = []

        chosen = module.attrs.get("entries")
        self.entries = {str(n) for n in chosen} if isinstance(chosen, tuple) else {"main"}

    def run(self) -> Module | None:
        for name in self._roots():
            self._plain(name)
        while self.waiting:
            name, function = self.waiting.pop()
            if max(self.counts.values(), default=0) >= MOST_SIZES:
                return None
            self.finished[name] = self._at_instances(function)
        # Functions of the program stay in their order.
        order = {name: place for place, name in enumerate(self.module.functions)}
        names = sorted(self.finished, key=lambda n: (order.get(n, len(order)), n))
        return replace(self.module, functions={n: self.finished[n] for n in names})

    def _roots(self) -> list[str]:
        """Return the functions that have no sizes, or are not only called."""
        found = {*self.entries}
        for name, function in self.module.functions.items():
            if not any(isinstance(p, DimVar) for p in function.type_params):
                found.add(name)
        for function in self.module.functions.values():
            for node in post_order(function):
                called = node.op if isinstance(node, Call) else None
                for part in children(node):
                    if isinstance(part, GlobalVar) and part is not called:
                        found.add(part.name)
        return [name for name in self.module.functions if name in found]

    def _plain(self, name: str) -> None:
        if (name, ()) not in self.made:
            self.made[name, ()] = name
            function = self.module.functions[name]
            self.waiting.append((name, self._opened(name, function) or function))

    def _opened(self, name: str, function: Function) -> Function | None:
        """Return a function that calls its instance at `?`; None where there is none, or where its
        sizes could not be compared.
        """
        params = function.type_params
        sizes = {p: ANY for p in params if isinstance(p, DimVar)}
        is_sized = bool(params) and len(sizes) == len(params)
        if not self.is_open or not is_sized or name not in self.entries:
            return None
        at_any = TypeMap(dims=sizes)
        result = _type(function.ret_type or function.body.checked_type)
        kinds = (*map(_of_param, function.params), result)
        if any(is_strict(kind, at_any(kind)) for kind in kinds):
            return None
        span = function.span
        callee = GlobalVar(name, span=span)
        given = tuple(ShapeArg(ANY) for _ in params)
        taken = tuple(replace(v) for v in function.params)
        call = Call(callee, taken, type_args=given, span=span, checked_type=at_any(result))
        known = Var("result", result, span=span, checked_type=result)
        body = Let(known, call, known, span=span, checked_type=result)
        return replace(function, params=taken, body=body)

    def _at_instances(self, function: Function) -> Function:
        def step(_before: Expr, after: Expr) -> Expr:
            if isinstance(after, Call) and isinstance(after.op, GlobalVar):
                return self._call(after, after.op)
            return after

        result = rebuild(function, step)
        assert isinstance(result, Function)
        return result

    def _call(self, call: Call, callee: GlobalVar) -> Call:
        function = self.module.functions[callee.name]
        params = function.type_params
        sizes = tuple(map(known_size, call.type_args))
        if len(params) != len(sizes) or all(size is None for size in sizes):
            self._plain(callee.name)
            return call
        name = self.made.get((callee.name, sizes))
        if name is None:
            name = sized_name(callee.name, sizes, self.names)
            self.made[callee.name, sizes] = name
            self.counts[callee.name] = self.counts.get(callee.name, 0) + 1
            self.waiting.append((name, _instance(function, dict(zip(params, sizes)))))
        left = tuple(arg for arg, size in zip(call.type_args, sizes) if size is None)
        return replace(call, op=GlobalVar(name, span=callee.span), type_args=left)


def _instance(function: Function, sizes: Mapping[TypeParam, Dim | None]) -> Function:
    known = {p: s for p, s in sizes.items() if isinstance(p, DimVar) and s is not None}
    types = TypeMap(dims=known)
    copy = Copier(types).copy(function)
    assert isinstance(copy, Function)
    kind = FuncType(
        tuple(map(_of_param, copy.params)),
        _type(copy.ret_type or copy.body.checked_type),
        copy.type_params,
        copy.type_constraints,
    )
    return replace(copy, checked_type=kind)


def _of_param(param: Var) -> Type:
    return _type(param.checked_type or param.type_annotation)


def _type(type_: Type | None) -> Type:
    assert type_ is not None
    return type_
