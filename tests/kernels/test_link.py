"""Linking objects to flat images: imports, constants, merging, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from relayvm.base.diagnostics import InternalError
from relayvm.base.link import link_object, merge_images
from relayvm.base.native.cpu import target_cpu
from relayvm.base.target import Target
from relayvm.kernels.codegen.llvm import compile_object, module_text
from tests.kernels.images import LoadedImage

PHASE = "define i32 @k.0(ptr %args, ptr %dims, i64 %begin, i64 %end, ptr %scratch) #0 {"
ARM = Target.parse("cpu -mtriple=aarch64-unknown-linux-gnu")

FILL = f"""
declare ptr @memset(ptr, i32, i64)
{PHASE}
  %out = load ptr, ptr %args
  %n = load i64, ptr %dims
  %r = call ptr @memset(ptr %out, i32 %VALUE, i64 %n)
  ret i32 0
}}
"""
# A switch large enough for a jump table, a constant pool and a call between functions.
TABLE = f"""
@t = private constant [4 x i64] [i64 11, i64 22, i64 33, i64 44]
define internal i64 @pick(i64 %i) noinline {{
  %p = getelementptr [4 x i64], ptr @t, i64 0, i64 %i
  %v = load i64, ptr %p
  ret i64 %v
}}
{PHASE}
entry:
  %out = load ptr, ptr %args
  %n = load i64, ptr %dims
  switch i64 %n, label %z [i64 0, label %a
    i64 1, label %b
    i64 2, label %c
    i64 3, label %d
    i64 4, label %e
    i64 5, label %f]
a: %ra = call i64 @pick(i64 3)
  br label %z
b: br label %z
c: %rc = call i64 @pick(i64 %begin)
  br label %z
d: store volatile i64 0, ptr %out
  br label %z
e: store volatile i64 1, ptr %out
  br label %z
f: br label %z
z: %v = phi i64 [-1, %entry], [%ra, %a], [70, %b], [%rc, %c], [80, %d], [90, %e], [97, %f]
  store i64 %v, ptr %out
  ret i32 0
}}
"""


def _link(text, target=None, name="k"):
    cpu = target_cpu(target or Target())
    data = compile_object(module_text(text, cpu), cpu)
    return link_object(data, cpu.triple, cpu.features, {name: ("k.0",)})


def _fill(value):
    return FILL.replace("%VALUE", str(value))


def test_an_import_is_called_through_its_slot():
    image = _link(_fill(7))
    ((name, slot),) = image.imports
    assert name == "memset"
    assert slot % 8 == 0
    out = np.zeros(8, np.uint8)
    assert LoadedImage(image).call("k", [out], [5]) == 0
    assert out.tolist() == [7] * 5 + [0] * 3


def test_constants_jump_tables_and_calls_are_reached():
    loaded = LoadedImage(_link(TABLE))
    for n, expected in [(0, 44), (1, 70), (2, 11), (3, 80), (4, 90), (5, 97), (9, -1)]:
        out = np.zeros(1, np.int64)
        assert loaded.call("k", [out], [n]) == 0
        assert out[0] == expected


def test_merged_images_run_each_kernel():
    image = merge_images([("a", _link(_fill(1))), ("t", _link(TABLE)), ("b", _link(_fill(2)))])
    loaded = LoadedImage(image)
    out = np.zeros(8, np.uint8)
    loaded.call("a", [out], [8])
    assert out.tolist() == [1] * 8
    loaded.call("b", [out], [4])
    assert out.tolist() == [2] * 4 + [1] * 4
    word = np.zeros(1, np.int64)
    loaded.call("t", [word], [2])
    assert word[0] == 11


def test_the_same_code_under_two_names_is_kept_once():
    part = _link(_fill(1))
    merged = merge_images([("a", part), ("b", part)])
    assert merged.entries["a"] == merged.entries["b"]
    assert len(merged.code) == len(part.code)


def test_merged_images_need_what_each_part_needs():
    few, more = _link(_fill(1)), _link(_fill(2))
    more = replace(more, features=(*more.features, "another"))
    assert merge_images([("a", few), ("b", more)]).features == more.features
    assert merge_images([("b", more), ("a", few)]).features == more.features


@pytest.mark.parametrize("target", [Target(), ARM], ids=["host", "aarch64"])
def test_the_same_source_gives_the_same_bytes(target):
    assert _link(TABLE, target).code == _link(TABLE, target).code


def test_aarch64_code_is_linked():
    image = _link(TABLE + FILL.replace("k.0", "other").replace("%VALUE", "3"), ARM)
    assert image.triple.startswith("aarch64")
    assert [name for name, _ in image.imports] == ["memset"]


def test_other_imports_are_refused():
    text = f"""
declare float @expf(float)
{PHASE}
  %a = load float, ptr %args
  %x = call float @expf(float %a)
  store float %x, ptr %args
  ret i32 0
}}
"""
    with pytest.raises(InternalError, match="expf"):
        _link(text)


def test_writable_data_is_refused():
    text = f"@g = global i64 5\n{PHASE}\n store i64 %begin, ptr @g\n ret i32 0\n}}"
    with pytest.raises(InternalError, match="section `.data`|relocation"):
        _link(text)
