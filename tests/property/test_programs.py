"""The generator makes everything the language has; text and types of its programs are stable."""

from __future__ import annotations

import pytest
from hypothesis import given
from meaning import same_value
from programs import features, programs, random_program

from relayvm.base.source import Source
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.passes import PASSES, run_passes
from relayvm.ir.equal import structural_equal, structural_hash
from relayvm.ir.prelude import parse_program
from relayvm.ir.printer import print_module
from relayvm.ir.verify import verify_module
from relayvm.ops import OPS

NODES = {
    "Call",
    "Constant",
    "Constructor",
    "Function",
    "GlobalVar",
    "If",
    "Let",
    "Match",
    "Op",
    "RefCreate",
    "RefRead",
    "RefWrite",
    "Tuple",
    "TupleGetItem",
    "Var",
}
PATTERNS = {"PatternConstructor", "PatternTuple", "PatternVar", "PatternWildcard"}
SITUATIONS = {
    "captured closure",
    "complete match",
    "local recursion",
    "partial match",
    "recursion",
    "shared node",
}


@pytest.mark.slow
def test_200_programs_use_everything_and_keep_their_meaning_through_the_pipeline():
    found: set[str] = set()
    for seed in range(200):
        module, args = random_program(seed)
        found |= features(module)
        typed = infer_types(module)
        expected = Evaluator(typed).call("main", args)
        lowered = run_passes(typed, opt_level=seed % 4, verify=seed % 5 == 0)
        assert same_value(expected, Evaluator(lowered).call("main", args)), f"seed {seed}"
    assert NODES - found == set()
    assert PATTERNS - found == set()
    assert SITUATIONS - found == set()
    assert len([name for name in found if name.startswith("operator ")]) >= 30


@given(programs())
def test_printing_and_parsing_gives_the_same_module(case):
    module, _ = case
    again = parse_program(Source("printed", print_module(module)), OPS)
    assert structural_equal(again, module)
    assert structural_hash(again) == structural_hash(module)


@given(programs())
def test_printing_and_parsing_a_typed_module_gives_the_same_module(case):
    typed = infer_types(case[0])
    again = infer_types(parse_program(Source("printed", print_module(typed)), OPS))
    assert structural_equal(again, typed)


@given(programs())
def test_type_inference_is_idempotent_and_agrees_with_the_generator(case):
    module, _ = case
    typed = infer_types(module)
    verify_module(typed, typed=True)
    assert infer_types(typed) is typed
    assert typed["main"].ret_type == module["main"].ret_type


@given(programs())
def test_untyped_and_typed_programs_mean_the_same(case):
    module, args = case
    plain = Evaluator(module).call("main", args)
    assert same_value(plain, Evaluator(infer_types(module)).call("main", args))


def test_every_pass_keeps_a_module_that_it_leaves_alone():
    module = infer_types(parse_program("def @main(%x: int32) -> int32 { %x }", OPS))
    for name in sorted(set(PASSES) - {"fuse", "lift_closures", "compile_matches", "to_cps"}):
        assert run_passes(module, [name]) is module, name
