"""Small helpers of TVM's other namespaces that Relay programs call."""

from __future__ import annotations

import pytest
from relayvm.topi.utils import get_const_int, get_const_tuple

import relayvm as tvm
from relayvm import relay


def test_a_known_shape_is_a_tuple_of_integers():
    x = relay.var("x", shape=(2, 3))
    assert get_const_tuple(x.type_annotation.shape) == (2, 3)


def test_an_unknown_size_stays_in_a_shape_and_is_no_integer():
    size = tvm.te.var("n")
    assert get_const_tuple([size, 3]) == (size, 3)
    with pytest.raises(tvm.RelayError, match="not known before the program runs"):
        get_const_int(size)


@pytest.mark.parametrize(
    ("version", "has"),
    [("5.2", False), ("5.3", True), ("5.4", False), ("6.0", True), ("12.1", True)],
)
def test_a_compute_capability_says_whether_there_is_float16(version, has):
    assert tvm.contrib.nvcc.have_fp16(version) is has


@pytest.mark.parametrize("version", ["", "x", "8.", "8.6.1", "-1.0"])
def test_a_text_that_is_no_compute_capability_is_refused(version):
    with pytest.raises(tvm.RelayError, match="no compute capability"):
        tvm.contrib.nvcc.have_fp16(version)


def test_no_library_of_cuda_is_called():
    assert tvm.contrib.cudnn.exists() is False


def test_the_code_generator_has_a_version():
    assert tvm.target.codegen.llvm_version_major() >= 14


def test_devices_are_made_by_names_at_the_top():
    kinds = ["rocm", "opencl", "metal", "vpi", "vulkan", "ext_dev", "hexagon"]
    assert [getattr(tvm, kind)(1) for kind in kinds] == [tvm.device(kind, 1) for kind in kinds]


def test_texts_of_programs_are_printed_by_functions_too():
    program = relay.Function([], relay.const(1.0))
    assert relay.astext(program) == relay.pretty_print(program) == program.astext()
