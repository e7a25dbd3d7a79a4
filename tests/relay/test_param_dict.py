"""Parameters as bytes, in TVM's format."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as tvm
from relayvm import relay
from relayvm.base.diagnostics import RelayError
from relayvm.base.dtypes import DTYPES


def test_every_dtype_comes_back_with_its_bits():
    params = {row.name: np.array([[0, 1, 1]], row.numpy) for row in DTYPES}
    params |= {"rank 0": np.array(1.5), "empty": np.zeros((0, 3), "int8"), "größe": np.ones(1)}
    back = relay.load_param_dict(relay.save_param_dict(params))
    assert list(back) == list(params)
    for name, array in params.items():
        assert back[name].dtype == array.dtype and back[name].shape == array.shape
        assert back[name].tobytes() == array.tobytes()


def test_the_bytes_are_those_that_tvm_writes():
    # An array list of one float32 scalar 1.5 named `w`, as `tvm.runtime.save_param_dict` writes it.
    wanted = (
        "b79c04054f8de5f7" "0000000000000000"
        "0100000000000000" "0100000000000000" "77"
        "0100000000000000"
        "3fa1b496f0405edd" "0000000000000000" "01000000" "00000000" "00000000" "02" "20" "0100"
        "0400000000000000" "0000c03f"
    )  # fmt: skip
    made = relay.save_param_dict({"w": np.float32(1.5)})
    assert made.hex() == wanted
    assert tvm.runtime.load_param_dict(bytes.fromhex(wanted))["w"].numpy() == 1.5


def test_files_hold_the_same_bytes(tmp_path):
    path = tmp_path / "params"
    relay.save_param_dict_to_file({"a": np.arange(3)}, path)
    assert relay.load_param_dict_from_file(path)["a"].tolist() == [0, 1, 2]
    with pytest.raises(RelayError, match="cannot be read"):
        relay.load_param_dict_from_file(tmp_path / "none")


def test_bytes_that_are_cut_or_changed_are_refused():
    made = bytes(relay.save_param_dict({"a": np.arange(3), "b": np.ones((2, 2), "float32")}))
    for length in range(len(made)):
        with pytest.raises(RelayError) as raised:
            relay.load_param_dict(made[:length])
        assert raised.value.code == "bad-parameters"
    for place in range(len(made)):
        changed = bytearray(made)
        changed[place] ^= 0x80
        try:
            relay.load_param_dict(bytes(changed))
        except RelayError as failure:
            assert failure.code == "bad-parameters"


def test_the_error_names_the_byte():
    with pytest.raises(RelayError) as raised:
        relay.load_param_dict(b"x" * 16)
    assert str(raised.value) == (
        "error[bad-parameters]: byte 16: these bytes are no parameters: they begin otherwise\n"
        "help: `relayvm explain bad-parameters`"
    )


def test_the_error_counts_one_byte_as_one():
    made = bytes(relay.save_param_dict({"a": np.zeros((), "int8")}))
    with pytest.raises(RelayError, match="1 byte should come here, and the rest is 0 bytes"):
        relay.load_param_dict(made[:-1])
