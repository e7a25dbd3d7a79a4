"""Nests from the cache: the same kernel as scheduling gives, found only where all is the same."""

from __future__ import annotations

import zlib

import pytest

from relayvm.base.abi import DimCheck, DimSource
from relayvm.base.cache import cache_info, kernel_cache
from relayvm.base.dims import DimVar, dim_floordiv, symbol
from relayvm.base.target import Target
from relayvm.kernels import build, lower
from relayvm.kernels import compute as c
from relayvm.kernels.build import KernelRequest, build_kernels
from relayvm.kernels.printer import print_nest
from relayvm.kernels.stored import computation_key, kernel_from_bytes, kernel_to_bytes

from .computations import FAMILIES, Random


@pytest.fixture(autouse=True)
def private_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RELAYVM_CACHE", str(tmp_path / "cache"))


def _request(name="k", factor=2.0, var="n", dtype="float32", checks=()):
    n = DimVar(var)
    x = c.placeholder("x", (symbol(n),), dtype)
    y = c.compute((dim_floordiv(symbol(n), 3),), lambda i: x[i] * factor + x[i + 1])
    return KernelRequest(name, (x,), (y,), ((n, 0, 0),), tuple(f(n) for f in checks))


def _portable(request, level=3, target=None):
    return build_kernels([request], target or Target(), opt_level=level, native=False)[0]


def _key(case, *settings):
    return computation_key(case.computation, (), settings)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_a_kept_kernel_is_what_scheduling_gives(family):
    for number in range(3):
        case = family(Random(zlib.crc32(f"{family.__name__} {number}".encode())))
        computation = case.computation
        sources = tuple(DimSource(0, k) for k in range(len(computation.dim_vars)))
        nest = lower.lower(computation)
        signature = lower.kernel_signature(computation, nest, sources)
        kernel = build.Kernel(nest.name, print_nest(nest), signature)
        again = kernel_from_bytes(kernel_to_bytes(kernel), computation, sources, ())
        assert again == kernel


def test_the_same_computation_made_twice_has_one_key():
    for family in FAMILIES:
        seed = zlib.crc32(family.__name__.encode())
        assert _key(family(Random(seed))) == _key(family(Random(seed)))


def test_different_computations_have_different_keys():
    keys = {}
    for family in FAMILIES:
        for number in range(12):
            case = family(Random(number))
            text = print_nest(lower.lower(case.computation))
            body = text.removeprefix(f"nest @{case.computation.name}")
            assert keys.setdefault(_key(case), body) == body


def test_sharing_counts():
    x = c.placeholder("x", (9,), "float32")

    def make(shared):
        def value(i):
            a, b = c.scalar("exp", x[i]), c.scalar("exp", x[i])
            return a + a if shared else a + b

        return lower.Computation("k", (x,), (c.compute((9,), value),))

    assert computation_key(make(True), (), ()) != computation_key(make(False), (), ())


def test_a_second_build_schedules_nothing(monkeypatch):
    first = _portable(_request())
    monkeypatch.setattr(build, "schedule", None)
    second = _portable(_request("other"))
    assert second.nest == first.nest.replace("@k", "@other")
    assert [str(p) for p in second.signature.phases] == [str(p) for p in first.signature.phases]
    assert second.signature.sources == first.signature.sources


@pytest.mark.parametrize(
    "change", [{"factor": 3.0}, {"var": "m"}, {"dtype": "float64"}, {"factor": -0.0}]
)
def test_whatever_changes_the_nest_is_scheduled_again(change, monkeypatch):
    _portable(_request(factor=0.0) if change.get("factor") == 0 else _request())
    monkeypatch.setattr(build, "schedule", None)
    with pytest.raises(TypeError):
        _portable(_request(**change))


def test_levels_targets_and_checks_are_kept_apart(monkeypatch):
    _portable(_request(), 3, Target(cpu="skylake-avx512"))
    monkeypatch.setattr(build, "schedule", None)
    check = [lambda n: DimCheck(symbol(n), 12, "12")]
    for request, level, cpu in [
        (_request(), 0, "skylake-avx512"),
        (_request(), 3, "generic"),
        (_request(checks=check), 3, "skylake-avx512"),
    ]:
        with pytest.raises(TypeError):
            _portable(request, level, Target(cpu=cpu))


def test_nests_count_for_the_size_of_the_cache_but_are_no_kernels():
    _portable(_request())
    assert cache_info().entries == 0
    assert cache_info().size_bytes > 100


def test_a_damaged_nest_is_made_again():
    first = _portable(_request())
    (path,) = kernel_cache().folder.glob("??/*.nest")
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert _portable(_request()).nest == first.nest
