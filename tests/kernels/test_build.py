"""Building kernels: portable text and images, cache hits, what is refused, artifacts."""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from relayvm.base.abi import DimSource, Kernel
from relayvm.base.cache import cache_info, clear_cache
from relayvm.base.diagnostics import RelayError
from relayvm.base.dims import DimVar, dim_value, symbol
from relayvm.base.dtypes import INT8
from relayvm.base.native.own_code import with_own_code
from relayvm.base.target import Target
from relayvm.kernels import build
from relayvm.kernels import compute as te
from relayvm.kernels.build import KernelRequest, build_kernels, build_native
from relayvm.kernels.parser import parse_nest
from tests.kernels.images import LoadedImage

HOST = Target()
ARM = Target.parse("cpu -mtriple=aarch64-unknown-linux-gnu")


@pytest.fixture(autouse=True)
def private_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RELAYVM_CACHE", str(tmp_path / "cache"))


def _scale(name="scale", factor=2.0):
    n = DimVar("n")
    x = te.placeholder("x", (symbol(n),), "float32")
    y = te.compute((symbol(n),), lambda i: x[i] * factor)
    return KernelRequest(name, (x,), (y,), ((n, 0, 0),))


def _add_one():
    x = te.placeholder("x", (4,), "int32")
    return KernelRequest("add_one", (x,), (te.compute((4,), lambda i: x[i] + 1),))


def _run_scale(kernel):
    x, y = np.arange(20, dtype=np.float32), np.empty(20, np.float32)
    sizes = dict.fromkeys(kernel.signature.dim_vars, 20)
    extents = [dim_value(p, sizes) for p in kernel.signature.phases]
    assert LoadedImage(kernel.image).call(kernel.name, [x, y], [20], extents) == 0
    return y


def test_kernels_come_in_the_order_of_the_requests_and_share_an_image():
    kernels = build_kernels([_scale(), _add_one(), _scale("triple", 3.0)], HOST)
    assert [k.name for k in kernels] == ["scale", "add_one", "triple"]
    assert kernels[0].image is kernels[2].image
    x, out = np.arange(4, dtype=np.int32), np.empty(4, np.int32)
    extents = kernels[1].signature.phases
    assert LoadedImage(kernels[1].image).call("add_one", [x, out], (), extents) == 0
    assert out.tolist() == [1, 2, 3, 4]


def test_a_signature_tells_where_dims_come_from():
    (kernel,) = build_kernels([_scale()], HOST, native=False)
    assert kernel.image is None
    assert kernel.signature.sources == (DimSource(0, 0),)
    assert kernel.signature.in_place == ((1, 0),)


def test_naive_and_scheduled_kernels_are_compiled_from_stored_text():
    for level in (0, 3):
        portable = build_kernels([_scale()], HOST, opt_level=level, native=False)
        (kernel,) = build_native(portable, HOST)
        assert parse_nest(kernel.nest).name == "scale"
        assert _run_scale(kernel).tolist() == [2.0 * k for k in range(20)]


def test_the_same_request_gives_the_same_bytes():
    first = build_kernels([_scale()], HOST)[0]
    clear_cache()
    second = build_kernels([_scale()], HOST)[0]
    assert first.nest == second.nest
    assert first.image == second.image


def test_a_nest_at_hand_gives_the_code_of_its_text(monkeypatch):
    monkeypatch.setenv("RELAYVM_CACHE", "")
    requests = [_scale(), _add_one()]
    at_hand = build_kernels(requests, HOST)
    from_text = build_native(build_kernels(requests, HOST, native=False), HOST)
    assert [k.image for k in at_hand] == [k.image for k in from_text]


def test_the_second_build_comes_from_the_cache(monkeypatch):
    first = build_kernels([_scale(), _add_one()], HOST)
    assert cache_info().entries == 2
    monkeypatch.setattr(build.pool, "compile_jobs", None)
    second = build_kernels([_scale(), _add_one()], HOST)
    assert [k.image for k in first] == [k.image for k in second]


def test_a_kernel_under_another_name_is_in_the_cache_too(monkeypatch):
    build_kernels([_scale()], HOST)
    monkeypatch.setattr(build.pool, "compile_jobs", None)
    (kernel,) = build_kernels([_scale("other")], HOST)
    assert list(kernel.image.entries) == ["other"]


def test_targets_do_not_share_cache_entries():
    host, arm = build_kernels([_scale()], HOST)[0], build_kernels([_scale()], ARM)[0]
    assert host.image.triple.split("-")[0] != arm.image.triple.split("-")[0] or (
        host.image.features != arm.image.features
    )
    assert cache_info().entries == 2


def test_only_what_this_user_compiled_is_trusted():
    (kernel,) = build_kernels([_scale()], HOST)
    portable = replace(kernel, image=None)
    assert with_own_code([portable], HOST) == [kernel]
    changed = replace(portable, nest=portable.nest.replace("2.0", "3.0"))
    assert changed.nest != portable.nest
    assert with_own_code([portable, changed], HOST) is None
    assert with_own_code([portable, portable], HOST) is None


def test_a_cpu_that_is_not_known_is_refused():
    with pytest.raises(RelayError) as caught:
        build_kernels([_scale()], Target.parse("cpu -mcpu=pentium"))
    assert caught.value.code == "unknown-target"


def _with_operand(kernel, number, **changes):
    operands = list(kernel.signature.operands)
    operands[number] = replace(operands[number], **changes)
    return replace(kernel, signature=replace(kernel.signature, operands=tuple(operands)))


def _too_small_an_output(kernel: Kernel) -> Kernel:
    return _with_operand(kernel, 1, dims=(1,))


def _another_dtype(kernel: Kernel) -> Kernel:
    return _with_operand(kernel, 1, dtype=INT8)


def _one_operand_less(kernel: Kernel) -> Kernel:
    signature = replace(kernel.signature, operands=kernel.signature.operands[:1], in_place=())
    return replace(kernel, signature=signature)


def _more_phases(kernel: Kernel) -> Kernel:
    phases = (*kernel.signature.phases, 1)
    return replace(kernel, signature=replace(kernel.signature, phases=phases))


def _wrong_pair(kernel: Kernel) -> Kernel:
    return replace(kernel, signature=replace(kernel.signature, in_place=((0, 1),)))


@pytest.mark.parametrize(
    "damage",
    [_too_small_an_output, _another_dtype, _one_operand_less, _more_phases, _wrong_pair],
)
def test_a_signature_that_is_not_the_nests_is_refused(damage):
    (kernel,) = build_kernels([_scale()], HOST)
    with pytest.raises(RelayError) as caught:
        build_native([damage(kernel)], HOST)
    assert caught.value.code == "bad-executable"


def test_without_llvmlite_what_is_cached_still_builds(monkeypatch):
    (kernel,) = build_kernels([_scale()], HOST)
    monkeypatch.setattr(build, "compiler_available", lambda: False)
    assert build_native([kernel], HOST)[0].image == kernel.image
    with pytest.raises(RelayError) as caught:
        build_kernels([_add_one()], HOST)
    assert caught.value.code == "native-not-allowed"


def test_artifacts_are_kept_on_demand(tmp_path, monkeypatch):
    monkeypatch.setenv("RELAYVM_KEEP", str(tmp_path / "keep"))
    build_kernels([_scale()], HOST)
    kept = {p.name: p.read_text() for p in (tmp_path / "keep").iterdir()}
    assert set(kept) == {"scale.nest", "scale.ll", "scale.s"}
    assert "define i32 @kernel.0" in kept["scale.ll"]


def test_artifacts_of_a_foreign_name_stay_in_their_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RELAYVM_KEEP", str(tmp_path / "keep"))
    (kernel,) = build_kernels([_scale()], HOST, native=False)
    build_native([replace(kernel, name="../../scale")], HOST)
    assert {p.name for p in tmp_path.iterdir()} == {"cache", "keep"}
    assert len(list((tmp_path / "keep").iterdir())) == 3


def test_two_kernels_of_one_name_are_refused():
    (kernel,) = build_kernels([_scale()], HOST, native=False)
    with pytest.raises(RelayError) as caught:
        build_native([kernel, kernel], HOST)
    assert caught.value.code == "bad-executable"


WARM = """
import sys
from tests.kernels.test_build import HOST, _add_one, _scale
from relayvm.kernels.build import build_kernels
build_kernels([_scale(), _add_one()], HOST)
assert not any("llvmlite" in name for name in sys.modules), "llvmlite was imported"
"""


@pytest.mark.slow
def test_a_warm_build_does_not_import_llvmlite():
    build_kernels([_scale(), _add_one()], HOST)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", WARM], check=True, env=environment)


@pytest.mark.slow
def test_many_kernels_are_compiled_by_workers(monkeypatch):
    monkeypatch.setenv("RELAYVM_COMPILE_WORKERS", "2")
    monkeypatch.setattr(build.pool, "_TEXT_WORTH_WORKERS", 0)
    requests = [_scale(f"scale{k}", float(k)) for k in range(4)]
    kernels = build_kernels(requests, HOST)
    assert _run_scale(kernels[3]).tolist() == [3.0 * k for k in range(20)]
    build.pool._pools.pop(2).stop()
