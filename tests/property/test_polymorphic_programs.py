"""Passes that list the functions of a program keep the meaning of polymorphic ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from meaning import check_passes
from polymorphic_programs import polymorphic_program

from relayvm.compiler.infer_types import infer_types

STEPS = [
    ["lambda_lift"],
    ["defunctionalize"],
    ["lambda_lift", "defunctionalize"],
    ["lambda_lift", "lambda_lift", "instantiate"],
]


@pytest.mark.slow
@pytest.mark.parametrize("steps", STEPS, ids="+".join)
def test_polymorphic_values_keep_their_meaning(steps):
    @settings(max_examples=15)
    @given(st.integers(0, 2**32 - 1))
    def law(seed):
        module = infer_types(polymorphic_program(seed, 4))
        for args in ([np.int32(3), np.bool_(True)], [np.int32(0), np.bool_(False)]):
            check_passes(module, args, steps)

    law()
