"""What `defunctionalize` leaves has the types that inference finds anew."""

from __future__ import annotations

from pathlib import Path

import pytest

import relayvm
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.passes import run_passes
from relayvm.ir.printer import print_module

EXAMPLES = Path(relayvm.__file__).parents[1] / "examples"
NAMES = ("tensor_arrays/lstm_states", "seq2seq/bidirectional", "closures/pipeline")


@pytest.mark.parametrize("name", NAMES)
def test_sizes_inside_of_data_types_are_found_again(name):
    module = run_passes(relayvm.parse(EXAMPLES / f"{name}.relay"), ["infer_types"])
    lowered = run_passes(module, ["defunctionalize"], verify=True)
    assert infer_types(relayvm.parse(print_module(lowered, library=True)))
