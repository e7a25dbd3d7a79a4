"""Every pass, alone and after the others, keeps the type and the meaning of programs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from meaning import check_passes
from programs import programs

from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.passes import PASSES, run_passes
from relayvm.ir.equal import structural_equal

EXAMPLES_FOR_A_PASS = 20
KEEPS_TYPES_AS_THEY_ARE = sorted(set(PASSES) - {"instantiate"})


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
    check_passes(infer_types(module), args, list(PASSES))


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
