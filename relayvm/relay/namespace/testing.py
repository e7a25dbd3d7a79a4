"""`tvm.testing`: comparing arrays, and tests that run for each target that is here."""

from __future__ import annotations

import inspect
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any, NoReturn

import numpy as np

from relayvm.base.diagnostics import error
from relayvm.base.native.cpu import cpu_flags
from relayvm.relay.lazy import missing
from relayvm.relay.namespace.target import Target
from relayvm.relay.ndarray import Device, cpu, device
from relayvm.relay.node import as_dim

__all__ = [
    "Feature",
    "assert_allclose",
    "assert_prim_expr_equal",
    "check_numerical_grads",
    "device_enabled",
    "enabled_targets",
    "exclude_targets",
    "fixture",
    "identity_after",
    "known_failing_targets",
    "main",
    "parameter",
    "parameters",
    "parametrize_targets",
    "requires_nvcc_version",
    "requires_package",
    "skip_if_32bit",
    "slow",
    "terminate_self",
    "uses_gpu",
]

# A package to Python: `relayvm.testing.plugin` is found by name.
__path__: list[str] = []

TARGET = "llvm"


def assert_allclose(
    actual: Any,
    desired: Any,
    rtol: float = 1e-7,
    atol: float = 1e-7,
    verbose: bool = True,
) -> None:
    """Raise AssertionError unless two arrays have the same shape and close elements."""
    actual, desired = np.asanyarray(actual), np.asanyarray(desired)
    np.testing.assert_allclose(actual.shape, desired.shape)
    np.testing.assert_allclose(actual, desired, rtol=rtol, atol=atol, verbose=verbose)


def check_numerical_grads(
    function: Callable[..., Any],
    input_values: Any,
    grad_values: Any,
    function_value: Any = None,
    delta: float = 1e-3,
    atol: float = 1e-2,
    rtol: float = 0.1,
) -> None:
    """Raise AssertionError unless gradients agree with differences of a scalar function.

    Inputs and gradients are lists, or dicts by the names of parameters. The norm of the error of
    each gradient is at most `atol + rtol * norm`, per root of its size.
    """
    named = isinstance(input_values, dict)
    keys = list(input_values) if named else list(range(len(input_values)))
    values = {k: np.array(input_values[k]) for k in keys}

    def at(point: dict[Any, np.ndarray]) -> float:
        result = function(**point) if named else function(*(point[k] for k in keys))
        return float(np.sum(np.asarray(result, dtype="float64")))

    for key in keys:
        wanted = np.zeros(values[key].shape, "float64")
        for index in np.ndindex(values[key].shape):
            ends = []
            for sign in (1, -1):
                moved = values[key].copy()
                moved[index] += sign * delta
                ends.append(at({**values, key: moved}))
            wanted[index] = (ends[0] - ends[1]) / (2 * delta)
        given = np.asarray(grad_values[key], dtype="float64")
        scale = np.sqrt(max(1, given.size))
        allowed = atol * scale + rtol * np.linalg.norm(wanted)
        distance = np.linalg.norm(given - wanted)
        if not distance <= allowed:
            raise AssertionError(f"gradient {key}: its error is {distance}, allowed {allowed}")


# --- targets ---------------------------------------------------------------------------------


def enabled_targets() -> list[tuple[str, Device]]:
    """Return the targets of this machine, each with its device."""
    return [(TARGET, cpu(0))]


def device_enabled(target: Any) -> bool:
    """Tell whether programs for a target run here."""
    if not isinstance(target, (str, Target)):
        raise error("unknown-target", f"a target is text or a Target, not `{target!r}`")
    name = target.kind.name if isinstance(target, Target) else target.split(" ", maxsplit=1)[0]
    return name in ("llvm", "cpu")


def parametrize_targets(*args: Any) -> Any:
    """Return a test that runs for each of these targets that is here; as a decorator without
    arguments, for all.
    """
    import pytest

    if len(args) == 1 and callable(args[0]):
        return parametrize_targets()(args[0])
    chosen = [(t, device("cpu")) for t in args if device_enabled(t)] if args else enabled_targets()

    def decorate(test: Any) -> Any:
        names = inspect.signature(test).parameters
        place = "dev" if "dev" in names else "ctx" if "ctx" in names else ""
        if not place:
            return pytest.mark.parametrize("target", [t for t, _ in chosen])(test)
        return pytest.mark.parametrize(("target", place), chosen, ids=[t for t, _ in chosen])(test)

    return decorate


def exclude_targets(*args: str) -> Callable[[Any], Any]:
    """Return a test that does not run for some targets."""
    import pytest

    return _marked_for(args, pytest.mark.skip(reason="the target is excluded"))


def known_failing_targets(*args: str) -> Callable[[Any], Any]:
    """Return a test that is not expected to hold for some targets; it runs for them too."""
    import pytest

    return _marked_for(args, pytest.mark.xfail(reason="the test is known to fail for the target"))


def _marked_for(targets: Sequence[str], mark: Any) -> Callable[[Any], Any]:
    hit = any(device_enabled(target) for target in targets)
    return lambda test: mark(test) if hit else test


# --- parameters ------------------------------------------------------------------------------


def parameter(*values: Any, ids: Any = None, by_dict: Any = None) -> Any:
    """Return a fixture with each of these values in turn."""
    import pytest

    if by_dict is not None:
        if values or ids:
            raise RuntimeError("values and by_dict exclude each other")
        ids, values = list(by_dict), tuple(by_dict.values())

    @pytest.fixture(params=values, ids=ids)
    def value(request: Any) -> Any:
        return request.param

    return value


def parameters(*value_sets: Sequence[Any], ids: Any = None) -> tuple[Any, ...]:
    """Return fixtures that take their values from the same set at the same time.

    As pytest parametrizes fixtures on their own, sets are kept together by a fixture of their own.
    """
    import pytest

    count = len(value_sets[0])
    if any(len(values) != count for values in value_sets):
        raise ValueError("all sets have the same number of values")

    def field(index: int) -> Any:
        @pytest.fixture(params=range(len(value_sets)), ids=ids)
        def value(request: Any) -> Any:
            chosen = getattr(request.node, "_relayvm_set", None)
            if chosen is None:
                request.node._relayvm_set = chosen = request.param
            elif chosen != request.param:
                pytest.skip("values of different sets do not go together")
            return value_sets[chosen][index]

        return value

    return tuple(field(index) for index in range(count))


def fixture(func: Any = None, *, cache_return_value: bool = False) -> Any:
    """Return a fixture; one whose value is kept is made once a module."""
    import pytest

    made = pytest.fixture(scope="module" if cache_return_value else "function")
    return made if func is None else made(func)


# --- what tests need -------------------------------------------------------------------------


class Feature:
    """Something that tests may need: its marker skips them where it is missing."""

    def __init__(self, name: str, is_here: bool) -> None:
        self.name = name
        self.is_here = is_here

    def __call__(self, *args: Any) -> Any:
        """Return a test that is skipped where this is missing; without a test, a decorator."""
        if not args:
            return self
        test = args[0]
        for mark in self.marks():
            test = mark(test)
        return test

    def marks(self) -> list[Any]:
        """Return the marks of pytest that skip tests where this is missing."""
        import pytest

        return [] if self.is_here else [pytest.mark.skip(reason=f"{self.name} is not here")]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.marks())

    def __repr__(self) -> str:
        return f"requires_{self.name}"


_HERE = frozenset({"llvm", "cpu", *({"x86"} if platform.machine() == "x86_64" else ())})
# Features of CPUs, by the names that Linux has for them.
_OF_CPUS = {
    "x86_vnni": "avx512_vnni",
    "x86_avx512": "avx512f",
    "x86_amx": "amx_int8",
    "arm_dot": "asimddp",
    "arm_fp16": "fphp",
    "aarch64_sve": "sve",
    "aarch64_sme": "sme",
}
_FEATURES = frozenset(
    [
        *_OF_CPUS,
        "llvm",
        "cpu",
        "x86",
        "gpu",
        "cuda",
        "cudagraph",
        "cudnn",
        "cublas",
        "nvptx",
        "tensorcore",
        "rocm",
        "metal",
        "opencl",
        "vulkan",
        "nnapi",
        "hexagon",
        "corstone300",
        "ethosn",
        "ethosu",
        "cmsisnn",
        "vitis_ai",
        "rpc",
        "micro",
    ]
)


def uses_gpu(*args: Any) -> Any:
    """Return the test as it is: it runs for whatever targets are here."""
    return args[0] if args else (lambda test: test)


def __getattr__(name: str) -> Feature:
    feature = name.removeprefix("requires_")
    if feature == name or feature not in _FEATURES:
        raise missing("relayvm.testing", name)
    return Feature(feature, feature in _HERE or _OF_CPUS.get(feature, "") in cpu_flags())


def requires_package(*packages: str) -> Callable[[Any], Any]:
    """Return a test that is skipped where Python packages are missing."""
    missing = [name for name in packages if not _can_be_imported(name)]
    feature = Feature(f"package {', '.join(missing)}", not missing)
    return feature


def _can_be_imported(name: str) -> bool:
    try:
        import_module(name)
    except ImportError:
        return False
    return True


def requires_nvcc_version(
    major_version: int, minor_version: int = 0, release_version: int = 0
) -> Callable[[Any], Any]:
    """Return a test that is skipped: there is no CUDA of any version."""
    version = f"{major_version}.{minor_version}.{release_version}"
    return Feature(f"nvcc {version}", False)


def skip_if_32bit(reason: str) -> Callable[..., Any]:
    """Return a test that is skipped where addresses have 32 bits."""
    import pytest

    narrow = sys.maxsize < 2**32
    return lambda test: pytest.mark.skip(reason=reason)(test) if narrow else test


def slow(fn: Any) -> Any:
    """Return a test with the mark `slow`: `pytest -m "not slow"` leaves it out."""
    import pytest

    return pytest.mark.slow(fn)


def identity_after(x: Any, sleep: float) -> Any:
    """Return a value after so many seconds."""
    time.sleep(sleep)
    return x


def terminate_self() -> NoReturn:
    """End the process with a failure."""
    sys.exit(-1)


def assert_prim_expr_equal(lhs: Any, rhs: Any) -> None:
    """Raise ValueError unless two sizes are the same for all values of their symbols."""
    if as_dim(lhs) != as_dim(rhs):
        raise ValueError(f"{lhs} and {rhs} are not equal")


def main() -> None:
    """Run the tests of the file that calls this."""
    import pytest

    caller = sys._getframe(1).f_globals["__file__"]
    sys.exit(pytest.main([caller, *sys.argv[1:]]))
