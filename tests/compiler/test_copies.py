"""Modules are copied and pickled whatever else was imported."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import numpy as np
import pytest

import relayvm
from relayvm import relay
from relayvm.base.diagnostics import RelayError
from relayvm.ir.equal import structural_equal
from relayvm.ir.expr import Constant
from relayvm.ir.types import TensorType
from relayvm.ir.visit import post_order
from relayvm.ops.operator import Fusion, Operator, operator
from relayvm.ops.schema import Float
from relayvm.relay import op_registry
from relayvm.relay.module import wrap

PROGRAM = """
import copy, pickle, relayvm
module = relayvm.parse("def @main(%x: int32) { (%x + 1, Cons(%x, Nil)) }")
for other in (copy.copy(module), copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
    assert str(other) == str(module) and other.library == module.library
"""


def test_a_process_that_knows_no_names_of_tvm_copies_and_pickles_modules():
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)


def test_a_deep_copy_has_arrays_of_its_own():
    module = relayvm.parse("def @main() { 2f + 1f }")
    arrays = [
        [n.data for n in post_order(m["main"]) if isinstance(n, Constant)]
        for m in (module, copy.deepcopy(module))
    ]
    assert all(np.array_equal(a, b) and a is not b for a, b in zip(*arrays))


@operator("steps_of_this_file", fusion=Fusion.ELEMENTWISE)
def of_this_file(x: Float, *, scale: float = 1.0) -> TensorType:
    """`x` times `scale`."""
    return x


def made_here() -> Operator:
    @operator("steps_of_my_own", fusion=Fusion.ELEMENTWISE)
    def row(x: Float, *, scale: float = 1.0) -> TensorType:
        """`x` times `scale`."""
        return x

    return row


def calling(row: Operator) -> relayvm.Module:
    text = f"def @main(%x: Tensor[(2,), float32]) {{ {row.name}(%x, scale=0.5f) + 1f }}"
    return relayvm.parse(text, operators=[row])


@pytest.mark.parametrize("row", [of_this_file, made_here()], ids=lambda row: row.name)
@pytest.mark.parametrize("way", ["module", "IRModule", "function"])
def test_copies_of_a_program_call_the_same_operators(row: Operator, way: str) -> None:
    module = calling(row)
    made = {"module": module, "IRModule": wrap(module), "function": module["main"]}
    for other in (copy.copy(made[way]), copy.deepcopy(made[way])):
        function = other if way == "function" else other["main"]
        assert structural_equal(module["main"], function)
        assert any(node is row for node in post_order(function))
    assert copy.copy(row) is copy.deepcopy(row) is row


def test_a_pickle_finds_an_operator_where_it_is_defined() -> None:
    module = calling(of_this_file)
    for made in (module, wrap(module)):
        other = pickle.loads(pickle.dumps(made))
        assert any(node is of_this_file for node in post_order(other["main"]))
    assert pickle.loads(pickle.dumps(of_this_file)) is of_this_file


def test_an_operator_that_no_module_has_is_named_when_it_is_pickled() -> None:
    with pytest.raises(RelayError, match="`steps_of_my_own` cannot be pickled") as caught:
        pickle.dumps(calling(made_here()))
    assert "load_json" in caught.value.diagnostics[0].help


def test_a_process_without_the_operator_says_which_it_is(tmp_path: Path) -> None:
    (tmp_path / "rows.py").write_text(ROWS, encoding="utf-8")
    (tmp_path / "write.py").write_text(WRITE, encoding="utf-8")
    (tmp_path / "read.py").write_text(READ, encoding="utf-8")
    for script in ("write.py", "read.py"):
        subprocess.run([sys.executable, script], check=True, cwd=tmp_path)
    (tmp_path / "rows.py").unlink()
    done = subprocess.run(
        [sys.executable, "read.py"], check=False, cwd=tmp_path, stderr=PIPE, text=True
    )
    assert "operator `twice` is needed, but `rows.twice` is not found here" in done.stderr


ROWS = """
from relayvm.ops import Fusion, operator
from relayvm.ops.schema import Float
from relayvm.relay import op_registry
from relayvm.relay.module import wrap

@operator("twice", fusion=Fusion.ELEMENTWISE)
def twice(x: Float):
    "2 x"
    return x
"""
WRITE = """
import pickle, relayvm, rows
module = relayvm.parse("def @main(%x: float32) { twice(%x) }", operators=[rows.twice])
pickle.dump(module, open("program.pickle", "wb"))
"""
READ = """
import pickle
module = pickle.load(open("program.pickle", "rb"))
import rows
assert module["main"].body.op is rows.twice
"""


def test_a_registered_operator_is_copied_and_pickled_where_it_is_registered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(op_registry, "_registered", {})
    relay.op.register("steps_by_name")
    op = relay.op.get("steps_by_name")
    op.set_num_inputs(1)
    x = relay.var("x", shape=(2,))
    module = relayvm.IRModule.from_expr(relay.Function([x], relay.Call(op, [x])))
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert other["main"].body.op is op
    data = pickle.dumps(module)
    monkeypatch.setattr(op_registry, "_registered", {})
    with pytest.raises(RelayError, match="steps_by_name") as caught:
        pickle.loads(data)
    assert "relay.op.register" in caught.value.diagnostics[0].help


def test_json_takes_operators_as_texts_do() -> None:
    row = made_here()
    module = calling(row)
    text = relayvm.ir.save_json(module)
    assert relayvm.ir.load_json(text, operators=[row])["main"].body.args[0].op is row
    with pytest.raises(RelayError, match="no operator `steps_of_my_own`") as caught:
        relayvm.ir.load_json(text)
    assert "operators=" in caught.value.diagnostics[0].help
    with pytest.raises(RelayError, match="holds two operators named"):
        relayvm.ir.load_json(text, operators=[row, row])
