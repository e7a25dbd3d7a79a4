"""`tvm.target`: targets by TVM's texts."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from relayvm.base import target as base
from relayvm.base.diagnostics import error
from relayvm.relay.lazy import absent
from relayvm.relay.ndarray import Device, device

# Options of `llvm` that say nothing here: the machine has one runtime and one linker.
_IGNORED = frozenset(
    [
        "device",
        "keys",
        "libs",
        "link-params",
        "model",
        "num-cores",
        "opt-level",
        "runtime",
        "system-lib",
        "mabi",
        "mfloat-abi",
        "jit",
        "fast-math",
        "executor",
        "interface-api",
        "unpacked-api",
    ]
)


class Target:
    """What programs are compiled for, as TVM spells it: `llvm -mcpu=skylake-avx512`.

    In a `with` block it is the target of what is compiled inside without one.
    """

    def __init__(self, target: Any, host: Any = None) -> None:
        self.host = Target(host) if host is not None and not isinstance(host, Target) else host
        self.base = _base_target(target)
        self._outer: list[Target | None] = []

    @property
    def kind(self) -> _Kind:
        """The kind, with its name."""
        return _Kind("llvm" if self.base.kind == "cpu" else self.base.kind)

    @property
    def keys(self) -> list[str]:
        """The names under which operators look for what they do here."""
        return ["cpu"]

    @property
    def mcpu(self) -> str:
        """LLVM's name of the CPU; empty for the host's."""
        return self.base.cpu

    @property
    def attrs(self) -> dict[str, str]:
        """The options that are set."""
        pairs = {
            "mcpu": self.base.cpu,
            "mtriple": self.base.triple,
            "mattr": self.base.features,
        }
        return {name: value for name, value in pairs.items() if value}

    def get_target_device_type(self) -> int:
        """Return DLPack's number of the device."""
        return self.device.device_type

    @property
    def device(self) -> Device:
        """The device that this host has of the kind."""
        return device(self.base.kind)

    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """Return the target of the innermost `with` block."""
        found = _current.get()
        if found is None and not allow_none:
            raise error("unknown-target", "no target is current; open one by `with Target(...)`")
        return found

    def __enter__(self) -> Target:
        self._outer.append(_current.get())
        _current.set(self)
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        _current.set(self._outer.pop())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and self.base == other.base

    def __hash__(self) -> int:
        return hash(self.base)

    def __str__(self) -> str:
        options = " ".join(f"-{name}={value}" for name, value in self.attrs.items())
        return f"{self.kind.name} {options}".rstrip()

    def __repr__(self) -> str:
        return str(self)


_current: ContextVar[Target | None] = ContextVar("target", default=None)


class _Kind:
    """The kind of a target."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other)

    def __hash__(self) -> int:
        return hash(self.name)


def _base_target(target: Any) -> base.Target:
    if isinstance(target, Target):
        return target.base
    if isinstance(target, base.Target):
        return target
    if isinstance(target, dict):
        options = [f"-{k}={v}" for k, v in target.items() if k not in ("kind", "host")]
        return _base_target(" ".join([str(target.get("kind", "")), *options]))
    if not isinstance(target, str):
        raise error("unknown-target", f"a target is text, a dict or a Target, not `{target!r}`")
    words = target.split()
    kept = [
        word.replace("--", "-", 1) if word.startswith("--") else word
        for word in words
        if not (word.startswith("-") and word.lstrip("-").partition("=")[0] in _IGNORED)
    ]
    return base.Target.parse(" ".join(kept))


def target_of(value: Any) -> base.Target:
    """Return the compiler's target for what TVM's calls take: a text, a Target, a list or a dict of
    one, or None for the current one.
    """
    if isinstance(value, (list, tuple)) and len(value) == 1:
        value = value[0]
    if isinstance(value, dict) and "kind" not in value and len(value) == 1:
        value = next(iter(value.values()))
    if value is None:
        value = Target.current() or "llvm"
    return _base_target(value)


class VirtualDevice:
    """Where a value lives: a device and the target that is compiled for there."""

    def __init__(
        self,
        device: Device | None = None,
        target: Target | None = None,
        memory_scope: str = "",
    ) -> None:
        self.device = device
        self.target = target
        self.memory_scope = memory_scope
        self.device_type_int = device.device_type if device is not None else -1
        self.virtual_device_id = device.device_id if device is not None else -1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VirtualDevice) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.device, self.memory_scope))


def arm_cpu(model: str = "unknown", options: str | None = None) -> Target:
    """Return the target of 64-bit ARM CPUs."""
    triple = "-mtriple=aarch64-linux-gnu"
    return Target(f"llvm {'' if options and 'mtriple' in options else triple} {options or ''}")


__getattr__ = absent("relayvm.target")
