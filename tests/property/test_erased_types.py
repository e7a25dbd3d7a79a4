"""Annotations that are left out of well-typed programs are found again, or a message says which one
is needed.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from dataclasses import replace

import pytest
from meaning import same_value
from programs import random_program

from relayvm.base.diagnostics import RelayError
from relayvm.base.source import Source
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.transforms.copies import Copier, TypeMap
from relayvm.ir.equal import structural_equal
from relayvm.ir.expr import Expr, Function, Var
from relayvm.ir.module import Module
from relayvm.ir.prelude import parse_program
from relayvm.ir.printer import print_module
from relayvm.ir.types import ShapeArg, TensorType, Type
from relayvm.ir.verify import verify_module
from relayvm.ir.visit import rewrite_type
from relayvm.ops import OPS

NAMED = re.compile(r"cannot infer .*`%(\w+)`.*annotate")


class Eraser(Copier):
    """Copies a function without some of its annotations."""

    def __init__(
        self, chance: float, generator: random.Random, params: tuple[Var, ...], kept: set[str]
    ) -> None:
        super().__init__(TypeMap())
        self.chance, self.generator = chance, generator
        self.params, self.kept = params, kept

    def _fresh(self, var: Var) -> Var:
        fresh = super()._fresh(var)
        return replace(fresh, type_annotation=None) if self.forgets(var) else fresh

    def _node(self, node: Expr, done: dict[int, Expr]) -> Expr:
        new = super()._node(node, done)
        forgets = isinstance(new, Function) and self.generator.random() < self.chance
        return replace(new, ret_type=None) if forgets and isinstance(new, Function) else new

    def forgets(self, var: Var) -> bool:
        chosen = self.generator.random() < self.chance
        return chosen and var not in self.params and var.name not in self.kept


def erased(
    module: Module, seed: int, chance: float, with_params: bool, names: Iterable[str] = ()
) -> Module:
    """Return a module without some annotations; polymorphic functions and variables of these names
    keep theirs.
    """
    generator = random.Random(seed)
    functions = dict(module.functions)
    for name, function in module.functions.items():
        if name in module.library or function.type_params:
            continue
        kept = () if with_params and name != "main" else function.params
        eraser = Eraser(chance, generator, kept, set(names))
        functions[name] = eraser.copy(function)  # type: ignore[assignment]
    return module.with_functions(functions)


def without_sizes(type_: Type | None) -> Type | None:
    """Return a type in which all sizes are 0: an annotation may forget or demand some."""

    def forget(part: Type) -> Type:
        if isinstance(part, TensorType):
            return TensorType((0,) * len(part.shape), part.dtype)
        return ShapeArg(0) if isinstance(part, ShapeArg) else part

    return None if type_ is None else rewrite_type(type_, forget)


def check(seed: int, chance: float, with_params: bool) -> int:
    """Return how many annotations had to be written again, each where a message named it."""
    module, args = random_program(seed)
    typed = infer_types(module)
    asked: set[str] = set()
    while True:
        try:
            again = infer_types(erased(module, seed, chance, with_params, asked))
            break
        except RelayError as failure:
            if any("type argument" in d.message for d in failure.diagnostics):
                assert with_params, (seed, str(failure))
                return len(asked) + 1  # These can be written too, but are no variables.
            named = [NAMED.search(d.message) for d in failure.diagnostics]
            assert all(named) and {d.code for d in failure.diagnostics} == {"cannot-infer"}
            new = {found[1] for found in named if found} - asked
            assert new, (seed, asked, str(failure))
            asked |= new
    verify_module(again, typed=True)
    for name, function in typed.functions.items():
        found = again.functions[name].checked_type
        if not function.type_params:
            assert without_sizes(found) == without_sizes(function.checked_type), (seed, name)
    expected = Evaluator(typed).call("main", args)
    assert same_value(expected, Evaluator(again).call("main", args)), seed
    return len(asked)


@pytest.mark.slow
@pytest.mark.parametrize("chance", [0.3, 0.7])
def test_types_of_lets_functions_and_results_are_found_again(chance):
    # Only parameters of local functions that nothing uses and nothing is given to are asked for.
    assert sum(check(seed, chance, with_params=False) for seed in range(40)) < 10


@pytest.mark.slow
def test_types_of_parameters_are_found_from_uses_and_calls_or_asked_for():
    assert sum(check(seed, 0.15, with_params=True) == 0 for seed in range(40)) > 8


@pytest.mark.slow
def test_what_is_found_can_be_printed_and_read():
    for seed in range(0, 40, 2):
        try:
            again = infer_types(erased(random_program(seed)[0], seed, 0.5, with_params=False))
        except RelayError:
            continue
        read = parse_program(Source("erased", print_module(again)), OPS)
        assert structural_equal(infer_types(read), again)
