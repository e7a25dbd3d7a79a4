"""`tvm.testing`: comparing arrays, and tests that run for each target that is here."""

from __future__ import annotations

import inspect
import platform
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from relayvm.base.diagnostics import error
from relayvm.relay.namespace.target import Target
from relayvm.relay.ndarray import Device, cpu, device

__all__ = [
    "Feature",
    "assert_allclose",
    "check_numerical_grads",
    "device_enabled",
    "enabled_targets",
    "exclude_targets",
    "fixture",
    "known_failing_targets",
    "main",
    "parameter",
    "parameters",
    "parametrize_targets",
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
    return _skipped_for(args, "the target is excluded")


def known_failing_targets(*args: str) -> Callable[[Any], Any]:
    """Return a test that is not expected to hold for some targets."""
    return _skipped_for(args, "the test is known to fail for the target")


def _skipped_for(targets: Sequence[str], reason: str) -> Callable[[Any], Any]:
    import pytest

    hit = any(device_enabled(target) for target in targets)
    return lambda test: pytest.mark.skip(reason=reason)(test) if hit else test


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
        """Return a test that is skipped where this is missing; without arguments, a decorator."""
        import pytest

        if not args:
            return self
        reason = f"{self.name} is not here"
        return args[0] if self.is_here else pytest.mark.skip(reason=reason)(args[0])

    def __repr__(self) -> str:
        return f"requires_{self.name}"


_HERE = frozenset({"llvm", "cpu", *({"x86"} if platform.machine() == "x86_64" else ())})
_FEATURES = frozenset(
    [
        "llvm",
        "cpu",
        "x86",
        "x86_vnni",
        "x86_avx512",
        "x86_amx",
        "arm_dot",
        "gpu",
        "cuda",
        "cudagraph",
        "cudnn",
        "cublas",
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
        "package",
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
        raise AttributeError(f"module `relayvm.testing` has no attribute `{name}`")
    return Feature(feature, feature in _HERE)


def main() -> None:
    """Run the tests of the file that calls this."""
    import pytest

    caller = sys._getframe(1).f_globals["__file__"]
    sys.exit(pytest.main([caller, *sys.argv[1:]]))
