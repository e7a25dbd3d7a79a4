"""`Prelude`, the files of the library, and natural numbers."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm
from relayvm import relay
from relayvm.ir import print_module
from relayvm.ir.module import Module
from relayvm.ir.prelude import STD_FILES, import_from_std
from relayvm.ops import OPS
from relayvm.relay.module import IRModule
from relayvm.relay.prelude import Prelude
from relayvm.relay.testing.nat import count, make_nat_expr, make_nat_value
from tests.compiler.programs_text import evaluated

PRELUDE_FUNCTIONS = [
    "id",
    "compose",
    "flip",
    "hd",
    "tl",
    "nth",
    "length",
    "update",
    "map",
    "foldl",
    "foldr",
    "foldr1",
    "sum",
    "concat",
    "filter",
    "zip",
    "rev",
    "map_accumr",
    "map_accuml",
    "unfoldr",
    "unfoldl",
    "tmap",
    "size",
    "iterate",
]


def with_nat() -> Prelude:
    prelude = Prelude(IRModule())
    prelude.mod.import_from_std("nat.rly")
    return prelude


def run(mod: IRModule, kind: str, *args):
    return relay.create_executor(kind, mod=mod).evaluate()(*args)


def test_the_prelude_has_all_functions_and_types():
    prelude = Prelude()
    assert len(PRELUDE_FUNCTIONS) == 24
    for name in PRELUDE_FUNCTIONS:
        assert getattr(prelude, name) is prelude.mod.get_global_var(name)
    for name in ("List", "Option", "Tree"):
        assert prelude.mod.get_type(name)[0].name == name
    with pytest.raises(AttributeError, match="no_such"):
        _ = prelude.no_such


def test_a_function_of_the_program_comes_before_that_of_the_prelude():
    mod = IRModule()
    own = relay.Function([], relay.const(1))
    mod["iterate"] = own
    assert Prelude(mod).mod["iterate"] is own


def test_a_function_that_the_prelude_needs_cannot_be_another():
    mod = IRModule()
    mod["hd"] = relay.Function([], relay.const(1))
    with pytest.raises(relayvm.RelayError) as caught:
        Prelude(mod)
    assert caught.value.code == "library-conflict"


@pytest.mark.parametrize("name", STD_FILES)
def test_a_file_of_the_library_is_typed_and_prints_back(name):
    module = import_from_std(Module(), name, OPS)
    assert import_from_std(module, name, OPS).functions == module.functions
    text = print_module(module, library=True)
    again = relayvm.parse(text)
    assert print_module(again, library=True) == text
    if module.functions:
        relayvm.compiler.infer_types.infer_types(module)


def test_an_unknown_file_is_refused():
    with pytest.raises(relayvm.RelayError) as caught:
        IRModule().import_from_std("no.rly")
    assert caught.value.code == "unknown-library"


def test_a_definition_that_differs_is_refused():
    mod = IRModule.from_expr(relay.const(1))
    mod["nat_add"] = relay.Function([], relay.const(1))
    with pytest.raises(relayvm.RelayError) as caught:
        mod.import_from_std("nat.rly")
    assert caught.value.code == "library-conflict"


@pytest.mark.parametrize("kind", ["debug", "vm"])
def test_natural_numbers(kind):
    prelude = with_nat()
    mod = prelude.mod
    nat = mod.get_global_type_var("nat")
    x = relay.var("x", nat())
    programs = {
        prelude.nat_double(x): 10,
        prelude.nat_add(x, make_nat_expr(prelude, 3)): 8,
        prelude.nat_iterate(prelude.nat_double, x)(make_nat_expr(prelude, 1)): 32,
    }
    for body, wanted in programs.items():
        mod["main"] = relay.Function([x], body)
        assert count(prelude, run(mod, kind, make_nat_value(prelude, 5))) == wanted


def test_a_large_natural_number_goes_in_and_out():
    prelude = with_nat()
    nat = prelude.mod.get_global_type_var("nat")
    x = relay.var("x", nat())
    prelude.mod["main"] = relay.Function([x], x)
    result = run(prelude.mod, "vm", make_nat_value(prelude, 20_000))
    assert count(prelude, result) == 20_000


def test_lists_indexed_by_natural_numbers():
    prelude = with_nat()
    _, cons, nil = prelude.mod.get_type("List")
    items = cons(relay.const(7), cons(relay.const(8), nil()))
    updated = prelude.nat_update(items, make_nat_expr(prelude, 1), relay.const(9))
    pair = relay.Tuple([prelude.nat_nth(updated, make_nat_expr(prelude, k)) for k in range(2)])
    prelude.mod["main"] = relay.Function([], pair)
    assert [int(v.numpy()) for v in run(prelude.mod, "vm")] == [7, 9]


GRADIENT_CELLS = """
def @cell(%k: int32, %x: float32) -> GradCell[float32] {
  if (%k == 0) { Zero(fn () -> float32 { 0f }) }
  else { if (%k == 1) { One(fn () -> float32 { 1f }) } else { Raw(%x) } }
}
def @main(%a: int32, %b: int32) {
  let %mul = fn (%x: float32, %y: float32) -> float32 { %x * %y };
  let %plus = fn (%x: float32, %y: float32) -> float32 { %x + %y };
  let %x = @cell(%a, 3f);
  let %y = @cell(%b, 5f);
  (@FromGradCell(@MultiplyGradCell(%mul, %x, %y)), @FromGradCell(@AddGradCell(%plus, %x, %y)))
}
"""


def test_gradient_cells_compute_what_numbers_do():
    library = print_module(import_from_std(Module(), "gradient.rly", OPS))
    values = (0.0, 1.0)
    for a in range(3):
        for b in range(3):
            x, y = (*values, 3.0)[a], (*values, 5.0)[b]
            product, total = evaluated(library + GRADIENT_CELLS, np.int32(a), np.int32(b))
            assert (float(product), float(total)) == (x * y, x + y)
