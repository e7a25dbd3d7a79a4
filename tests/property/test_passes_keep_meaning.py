"""Every pass, alone and after the others, keeps the type and the meaning of programs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from meaning import check_passes
from programs import programs

from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.passes import PASSES, pipeline_names, run_passes
from relayvm.ir.equal import structural_equal

EXAMPLES_FOR_A_PASS = 20
KEEPS_TYPES_AS_THEY_ARE = sorted(set(PASSES) - {"instantiate", "defunctionalize"})
WITH_OPTIONS = [
    ["eliminate_dead_code[inline_once=1]"],
    ["inline[marked_only=1]"],
    ["eta_expand[expand_global_var=1]"],
    ["fuse_ops[fuse_opt_level=0]"],
    ["fuse_ops[max_depth=3,max_function_args=2]"],
    ["simplify_expr[exact=1]"],
]
ONE_AFTER_THE_OTHER = [
    ["to_graph_normal_form", "fuse_ops", "to_anf", "open_primitives", "to_graph_normal_form"],
    ["fuse_ops", "inline_primitives", "defuse_ops", "to_basic_block_normal_form", "lambda_lift"],
    ["to_cps", "un_cps", "remove_unused_functions", "inline"],
    ["eta_expand", "lambda_lift", "eliminate_dead_code[inline_once=1]", "defunctionalize"],
    ["defunctionalize", "to_cps", "to_graph_normal_form"],
]


@pytest.mark.slow
@pytest.mark.parametrize("name", PASSES)
def test_a_pass_keeps_meaning(name):
    @settings(max_examples=EXAMPLES_FOR_A_PASS)
    @given(programs(fuel=20))
    def law(case):
        module, args = case
        check_passes(infer_types(module), args, [name])

    law()


@pytest.mark.slow
@settings(max_examples=20)
@given(programs(fuel=20))
def test_passes_one_after_the_other_keep_meaning(case):
    module, args = case
    check_passes(infer_types(module), args, pipeline_names(4))


@pytest.mark.slow
@pytest.mark.parametrize("steps", WITH_OPTIONS + ONE_AFTER_THE_OTHER, ids="+".join)
def test_passes_of_the_language_keep_meaning(steps):
    @settings(max_examples=EXAMPLES_FOR_A_PASS)
    @given(programs(fuel=20))
    def law(case):
        module, args = case
        check_passes(infer_types(module), args, steps)

    law()


@pytest.mark.slow
@settings(max_examples=12)
@given(programs(fuel=16))
def test_passes_keep_the_type_of_main(case):
    typed = infer_types(case[0])
    for name in KEEPS_TYPES_AS_THEY_ARE:
        after = run_passes(typed, [name, "infer_types"])
        assert after["main"].checked_type == typed["main"].checked_type, name


@pytest.mark.slow
@settings(max_examples=10)
@given(programs(fuel=16))
def test_running_the_pipeline_twice_gives_the_same_module(case):
    once = run_passes(case[0])
    again = run_passes(case[0])
    assert structural_equal(once, again)
