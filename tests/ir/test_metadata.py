"""Constants without a literal go through text: in it, in a file beside it, as TVM wrote them."""

from __future__ import annotations

import base64
import contextlib
import json
import struct

import numpy as np
import pytest

import relayvm
from relayvm.base.diagnostics import RelayError
from relayvm.base.dtypes import DTYPES, dtype_of
from relayvm.ir.build import call, const, function, tuple_, var
from relayvm.ir.equal import structural_equal
from relayvm.ir.expr import Attrs, Constant
from relayvm.ir.metadata import read_tensors, write_tensors
from relayvm.ir.module import Module
from relayvm.ir.printer import print_module
from relayvm.ops import OPS


def arrays() -> dict[str, np.ndarray]:
    """Arrays of every element type with random bits: NaNs of all kinds, signed zeros."""
    rng = np.random.default_rng(5)
    made = {}
    for dtype in DTYPES:
        for shape in ((), (0, 4), (3, 5), (1, 1, 2)):
            count = int(np.prod(shape)) * dtype.itemsize_bytes
            content = rng.integers(0, 2 if dtype.is_bool else 256, count, np.uint8).tobytes()
            data = np.frombuffer(content, dtype.numpy).reshape(shape)
            made[f"{dtype}_{'x'.join(map(str, shape))}"] = data
    return made


def module_of(data: list[np.ndarray]) -> Module:
    return Module({"main": function([], tuple_(*map(Constant, data)))})


def same_bits(a: Module, b: Module) -> bool:
    return all(
        x.data.dtype == y.data.dtype
        and x.data.shape == y.data.shape
        and x.data.tobytes() == y.data.tobytes()
        for x, y in zip(a["main"].body.fields, b["main"].body.fields)
    )


def test_constants_keep_their_bits_in_the_text():
    module = module_of(list(arrays().values()))
    text = print_module(module)
    again = relayvm.parse(text)
    assert structural_equal(module, again) and same_bits(module, again)
    assert print_module(again) == text


@pytest.mark.parametrize("constants", ["inline", "file"])
def test_saved_text_is_read_back_with_the_same_bits(constants, tmp_path):
    module = module_of([*arrays().values(), np.arange(6, dtype=">i4").astype("i4")[::2]])
    path = tmp_path / "net.relay"
    relayvm.save_text(module, path, constants)
    again = relayvm.parse(path)
    assert structural_equal(module, again) and same_bits(module, again)
    assert sorted(p.name for p in tmp_path.iterdir()) == (
        ["net.relay"] if constants == "inline" else ["net.relay", "net.safetensors"]
    )
    assert ("base64" in path.read_text()) is False


def test_a_file_of_constants_is_replaced_as_a_whole(tmp_path):
    first, second = module_of([np.ones(1000, "f4")]), module_of([np.zeros(3, "f4")])
    relayvm.save_text(first, tmp_path / "a.relay", "file")
    loaded = relayvm.parse(tmp_path / "a.relay")
    relayvm.save_text(second, tmp_path / "a.relay", "file")
    assert loaded["main"].body.fields[0].data.sum() == 1000
    assert structural_equal(relayvm.parse(tmp_path / "a.relay"), second)


def test_saving_where_nothing_can_be_written_is_an_error(tmp_path):
    with pytest.raises(RelayError) as raised:
        relayvm.save_text(module_of([]), tmp_path / "none" / "a.relay")
    assert raised.value.code == "unwritable-file"
    with pytest.raises(RelayError) as raised:
        relayvm.save_text(module_of([]), tmp_path / "a.relay", "elsewhere")
    assert raised.value.code == "bad-option"


def test_the_safetensors_package_reads_our_files_and_we_read_its(tmp_path):
    package = pytest.importorskip("safetensors.numpy", reason="`make peers` installs it")
    whole = {str(d) for d in DTYPES if d.is_bool or d.bits >= 8}
    known = {name: a for name, a in arrays().items() if name.rpartition("_")[0] in whole}
    write_tensors(tmp_path / "ours", known)
    # Its own arrays are left out: numpy has no dtypes for some of them.
    rows = dict(package.deserialize((tmp_path / "ours").read_bytes()))
    package.save_file(known, tmp_path / "theirs", metadata={"made": "here"})
    read = read_tensors(tmp_path / "theirs")
    assert rows.keys() == read.keys() == known.keys()
    for name, data in known.items():
        assert read[name].dtype == data.dtype
        assert tuple(rows[name]["shape"]) == read[name].shape == data.shape
        assert bytes(rows[name]["data"]) == read[name].tobytes() == data.tobytes()


def test_files_of_tensors_are_those_of_the_format(tmp_path):
    header = {
        "__metadata__": {"made": "elsewhere"},
        "w": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]},
        "b": {"dtype": "F8_E5M2FNUZ", "shape": [3], "data_offsets": [8, 11]},
        "none": {"dtype": "I64", "shape": [0], "data_offsets": [11, 11]},
    }
    content = struct.pack("<2f", 1.5, -2) + b"\x00\x40\xbf"
    for row in ({}, header):  # a header may end at any byte
        text = json.dumps(header | row, indent=len(row)).encode()
        (tmp_path / "t").write_bytes(len(text).to_bytes(8, "little") + text + content)
        read = read_tensors(tmp_path / "t")
        assert list(read) == ["w", "b", "none"] and read["w"].tolist() == [[1.5, -2.0]]
        assert read["b"].tobytes() == content[8:] and read["b"].dtype.name == "float8_e5m2fnuz"
        assert read["none"].dtype == np.int64 and read["none"].shape == (0,)


def test_tensors_of_bytes_that_have_a_name_by_now_are_read_by_the_old_one(tmp_path):
    write_tensors(tmp_path / "t", {"a": np.zeros(1, dtype_of("float8_e4m3fnuz").numpy)})
    whole = (tmp_path / "t").read_bytes()
    assert b'"F8_E4M3FNUZ"' in whole
    text = whole[8:-1].replace(b"F8_E4M3FNUZ", b"FLOAT8_E4M3FNUZ_BYTES")
    (tmp_path / "t").write_bytes(len(text).to_bytes(8, "little") + text + whole[-1:])
    assert read_tensors(tmp_path / "t")["a"].dtype.name == "float8_e4m3fnuz"


def test_tensors_are_aligned_and_read_only(tmp_path):
    write_tensors(tmp_path / "t", {"a": np.ones(3, "i1"), "b": np.ones(3, "f8"), "c": np.ones(1)})
    read = read_tensors(tmp_path / "t")
    assert all(d.flags.aligned and not d.flags.writeable for d in read.values())


def test_damaged_files_of_tensors_are_told(tmp_path):
    path = tmp_path / "a.safetensors"
    write_tensors(path, {"a": np.ones(3, "f4"), "b": np.ones((2, 2), "i8")})
    whole = path.read_bytes()
    rng = np.random.default_rng(1)
    for _ in range(300):
        damaged = bytearray(whole[: rng.integers(len(whole))] if rng.random() < 0.3 else whole)
        for at in rng.integers(0, max(1, len(damaged)), 2):
            damaged[at : at + 1] = bytes([rng.integers(256)])
        path.write_bytes(damaged)
        with contextlib.suppress(ValueError):
            read_tensors(path)


SECTIONS = {
    "a file outside of the folder": '{"file": "../a.safetensors", "relay.Constant": []}',
    "no such file": '{"file": "gone.safetensors", "relay.Constant": []}',
    "no such tensor": """{"file": "a.safetensors",
        "relay.Constant": [{"dtype": "float32", "shape": [3], "tensor": "z"}]}""",
    "another shape": """{"file": "a.safetensors",
        "relay.Constant": [{"dtype": "float32", "shape": [4], "tensor": "a"}]}""",
    "no json": "{",
    "no constants": "[1]",
    "cut data": '{"relay.Constant": [{"dtype": "int8", "shape": [2], "data": "AA=="}]}',
    "no base64": '{"relay.Constant": [{"dtype": "int8", "shape": [1], "data": "$$"}]}',
    "deep": "[" * 100_000,
}


@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_that_cannot_be_read_is_told(name, tmp_path):
    write_tensors(tmp_path / "a.safetensors", {"a": np.ones(3, "f4")})
    (tmp_path / "a.relay").write_text(f"def @main() {{ 1 }}\n#[metadata]\n{SECTIONS[name]}")
    with pytest.raises(RelayError) as raised:
        relayvm.parse(tmp_path / "a.relay")
    assert raised.value.code == "bad-metadata" and raised.value.span is not None


def test_a_file_is_only_found_beside_a_text_with_a_path():
    with pytest.raises(RelayError) as raised:
        relayvm.parse('def @main() { 1 }\n#[metadata]\n{"file": "a", "relay.Constant": []}')
    assert "read by path" in raised.value.message


# --- what Apache TVM writes --------------------------------------------------------------


def dump(data: np.ndarray, code: int, bits: int) -> str:
    """An array as TVM dumps it: magic, reserved, device, rank, element type, dims, bytes."""
    head = struct.pack("<QQiiiBBH", 0xDD5E40F096B4A13F, 0, 1, 0, data.ndim, code, bits, 1)
    head += struct.pack(f"<{data.ndim + 1}q", *data.shape, data.nbytes)
    return base64.b64encode(head + data.tobytes()).decode()


def graph(objects: dict[str, list], parts: list[dict] = []) -> str:  # noqa: B006
    """A section as TVM writes it. Objects are fields, or the place of one of `parts`; `"$1"` among
    fields names the second part.
    """
    nodes: list[dict] = [{"type_key": ""}, {"type_key": "Map", "keys": [], "data": []}, *parts]
    for key, rows in objects.items():
        numbers = []
        for row in rows:
            numbers.append(row + 2 if isinstance(row, int) else len(nodes))
            if not isinstance(row, int):
                nodes.append({"type_key": key, "attrs": row})
        nodes[1]["keys"].append(key)
        nodes[1]["data"].append(len(nodes))
        nodes.append({"type_key": "Array", "data": numbers})
    arrays = [
        dump(np.array([1, 2, 3], "f4"), 2, 32),
        dump(np.array([[1, 0]], "u1"), 1, 1),
        dump(np.array([-1], "i8"), 0, 64),
    ]
    attrs = {"tvm_version": "0.18.0"}
    text = json.dumps({"root": 1, "nodes": nodes, "b64ndarrays": arrays, "attrs": attrs}, indent=2)
    for i in range(len(parts)):
        text = text.replace(f'"${i}"', f'"{i + 2}"')
    return text


CONSTANTS = [{"data": str(i), "span": "0", "_checked_type_": "0"} for i in range(3)]


def test_constants_of_tvm_are_read():
    text = """#[version = "0.0.5"]
def @main(%x {virtual_device=meta[VirtualDevice][0]}: Tensor[(3), float32] /* ty=.. */,
          virtual_device=meta[VirtualDevice][0]) {
  (add(%x, meta[relay.Constant][0] /* ty=Tensor[(3), float32] */), meta[relay.Constant][1],
   meta[relay.Constant][2])
}
#[metadata]
""" + graph({"relay.Constant": CONSTANTS, "VirtualDevice": [{"device_type_int": "1"}]})
    body = relayvm.parse(text)["main"].body
    assert body.fields[0].args[1].data.tolist() == [1, 2, 3]
    assert body.fields[1].data.dtype == np.bool_ and body.fields[1].data.tolist() == [[True, False]]
    assert body.fields[2].data.tolist() == [-1] and not relayvm.parse(text)["main"].attrs


PARTS = [
    {"type_key": "IntImm", "attrs": {"dtype": "int32", "span": "0", "value": "7"}},
    {"type_key": "Array", "data": [2, 2]},
    {"type_key": "runtime.String", "repr_str": "NCHW"},
    {"type_key": "tir.Any", "attrs": {"dtype": "int32"}},
    {"type_key": "Map", "keys": ["a", "b"], "data": [3, 4]},
    {"type_key": "FloatImm", "attrs": {"dtype": "float64", "value": "0.5"}},
    {"type_key": "Map", "keys": ["k"], "data": [2]},
]
ATTRS = "relay.attrs."


def test_attributes_of_tvm_fit_the_schema_of_the_operator():
    pool_attrs = {"pool_size": "$1", "strides": "$1", "layout": "NCHW", "ceil_mode": "1"}
    objects = {
        f"{ATTRS}SoftmaxAttrs": [{"axis": "2"}],
        f"{ATTRS}MaxPool2DAttrs": [pool_attrs],
        f"{ATTRS}TakeAttrs": [{"axis": "$0", "batch_dims": "$0", "mode": "clip"}],
    }
    text = """
def @main(%x: Tensor[(1, 3, 14, 14), float32]) {
  (nn.softmax(%x, meta[relay.attrs.SoftmaxAttrs][0]),
   nn.max_pool2d(%x, meta[relay.attrs.MaxPool2DAttrs][0]),
   take(%x, 1, meta[relay.attrs.TakeAttrs][0]))
}
#[metadata]
"""
    fields = relayvm.parse(text + graph(objects, PARTS))["main"].body.fields
    softmax, pool, take = (field.attrs for field in fields)
    assert softmax == Attrs(axis=2)
    assert pool["pool_size"] == (7, 7) and pool["ceil_mode"] is True and pool["layout"] == "NCHW"
    assert take["axis"] == 7 and take["mode"] == "clip"


def test_dims_and_values_of_tvm_are_read():
    text = """
def @main(%x: Tensor[(meta[tir.Any][0], meta[IntImm][0], 3i64), float32], note=meta[Map][0],
          half=meta[FloatImm][0]) {
  @f(%x, meta[DictAttrs][0])
}
def @f(%x: Tensor[(?, 7, 3), float32]) { %x }
#[metadata]
"""
    objects = {"tir.Any": [3], "IntImm": [0], "FloatImm": [5], "Map": [4]}
    section = graph({**objects, "DictAttrs": [{"__dict__": "$6"}]}, PARTS)
    module = relayvm.parse(text + section)
    main = module["main"]
    assert str(main.params[0].type_annotation.shape) == "(?, 7, 3)"
    assert main.attrs["half"] == 0.5 and main.attrs["note"] == Attrs(a=(7, 7), b="NCHW")
    assert main.body.attrs == Attrs(k=7)
    assert structural_equal(relayvm.parse(print_module(module)), module)


@pytest.mark.parametrize("use", ["exp(%x, meta[relay.attrs.Any][0])", "meta[IntImm][0]"])
def test_damaged_graphs_are_told(use):
    objects = {"relay.Constant": CONSTANTS, "relay.attrs.Any": [{"axis": "2"}], "IntImm": [0]}
    whole = graph(objects, PARTS)
    rng = np.random.default_rng(2)
    for _ in range(300):
        at = int(rng.integers(len(whole)))
        damaged = whole[:at] + '[]{}",:0123456789ab'[rng.integers(18)] + whole[at + 1 :]
        text = f"def @main(%x: Tensor[(?, 3), float32]) {{ ({use}, meta[relay.Constant][0]) }}"
        try:
            relayvm.parse(f"{text}\n#[metadata]\n{damaged}")
        except RelayError as reason:
            assert all(d.span for d in reason.diagnostics)


def test_values_that_contain_themselves_are_told():
    text = "def @main(note=meta[Array][0]) { 1 }\n#[metadata]\n"
    nodes = [
        {"type_key": ""},
        {"type_key": "Map", "keys": ["Array"], "data": [2]},
        {"type_key": "Array", "data": [3]},
        {"type_key": "Array", "data": [3, 3]},
    ]
    with pytest.raises(RelayError) as raised:
        relayvm.parse(text + json.dumps({"root": 1, "nodes": nodes, "b64ndarrays": []}))
    assert raised.value.code == "bad-metadata"


def test_module_attributes_have_a_text():
    attrs = Attrs(executor="vm", sizes=[1, (2.5, "x")], options={"deep": {"a b": None}, "n": -1})
    main = function([var("x", shape=())], call(OPS["add"], var("y", shape=()), const(1)))
    main = function([], const(1))
    module = Module({"main": main}, attrs=attrs)
    text = print_module(module)
    assert text.startswith('#[attrs(executor="vm", options={"deep": {"a b": None}, "n": -1}, ')
    again = relayvm.parse('#[version = "0.0.5"]\n' + text)
    assert again.attrs == attrs and structural_equal(module, again)
