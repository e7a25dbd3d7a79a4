"""`tvm.target`: targets by TVM's texts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from relayvm.base import target as base
from relayvm.base.diagnostics import error
from relayvm.relay.lazy import lazy_names
from relayvm.relay.ndarray import Device, device

# Options of `llvm` that are remembered and change nothing: the machine has one runtime and linker.
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
        "tag",
    ]
)
_LISTS = frozenset(["keys", "libs", "mattr"])


class Target:
    """What programs are compiled for, as TVM spells it: `llvm -mcpu=skylake-avx512`.

    In a `with` block it is the target of what is compiled inside without one.
    """

    def __init__(self, target: Any, host: Any = None) -> None:
        given = host if host is not None else _host_of(target)
        self.host = Target(given) if given is not None and not isinstance(given, Target) else given
        self.base = _base_target(target)
        self.options = _options_of(target)
        self._outer: list[Target | None] = []

    @property
    def kind(self) -> TargetKind:
        """The kind, with its name."""
        return TargetKind("llvm" if self.base.kind == "cpu" else self.base.kind)

    @property
    def keys(self) -> list[str]:
        """The names under which operators look for what they do here."""
        found: list[str] = self.attrs.get("keys", ["cpu"])
        return found

    @property
    def model(self) -> str:
        """What the machine is called; `unknown` where the target does not say."""
        return str(self.attrs.get("model", "unknown"))

    @property
    def device_name(self) -> str:
        """The option `device`, or nothing."""
        return str(self.attrs.get("device", ""))

    @property
    def libs(self) -> list[str]:
        """The libraries that a program may be linked with; none of them is used."""
        return list(self.attrs.get("libs", []))

    @property
    def mattr(self) -> list[str]:
        """LLVM's features of the CPU, such as `+avx512f`."""
        return list(self.attrs.get("mattr", []))

    @property
    def mcpu(self) -> str:
        """LLVM's name of the CPU; empty for the host's."""
        return self.base.cpu

    @property
    def attrs(self) -> dict[str, Any]:
        """The options that are set: texts, numbers, or lists of texts."""
        return {name: _value(name, text) for name, text in self._texts().items()}

    def _texts(self) -> dict[str, str]:
        own = {"mcpu": self.base.cpu, "mtriple": self.base.triple, "mattr": self.base.features}
        return {**{name: text for name, text in own.items() if text}, **self.options}

    def export(self) -> dict[str, Any]:
        """Return the target as a dict, of which `Target` makes it again."""
        host = {} if self.host is None else {"host": self.host.export()}
        return {"kind": self.kind.name, "keys": self.keys, **self.attrs, **host}

    def with_host(self, host: Any = None) -> Target:
        """Return the target with another host."""
        return Target(self, Target(host))

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

    # -- Targets in all the forms that calls take ----------------------------------------------

    @staticmethod
    def list_kinds() -> list[str]:
        """Return the names of the kinds."""
        return ["llvm"]

    @staticmethod
    def target_or_current(target: Any) -> Any:
        """Return what is given, or the current target; raises RelayError `unknown-target`."""
        return Target.current(allow_none=False) if target is None else target

    @staticmethod
    def canon_target(target: Any) -> Target | None:
        """Return a text, a dict or a Target as a Target."""
        return target if target is None or isinstance(target, Target) else Target(target)

    @staticmethod
    def canon_target_and_host(
        target: Any, target_host: Any = None
    ) -> tuple[Target | None, Target | None]:
        """Return a target and its host; `target_host` is for targets without one."""
        found = Target.canon_target(target)
        if found is None:
            if target_host is not None:
                raise error("unknown-target", "there is a host without a target")
            return None, None
        if found.host is None and target_host is not None:
            found = found.with_host(target_host)
        return found, found.host

    @staticmethod
    def canon_multi_target(multi_targets: Any) -> list[Target | None] | None:
        """Return one target, a list of them or a dict of them by device as a list."""
        if multi_targets is None:
            return None
        if isinstance(multi_targets, Mapping) and "kind" not in multi_targets:
            multi_targets = list(multi_targets.values())
        if not isinstance(multi_targets, (list, tuple)):
            multi_targets = [multi_targets]
        return [Target.canon_target(target) for target in multi_targets]

    @staticmethod
    def canon_multi_target_and_host(target: Any, target_host: Any = None) -> list[Target | None]:
        """Return targets as a list, each with its host; `target_host` is for those without one."""
        found = Target.canon_multi_target(target)
        if not found:
            raise error("unknown-target", "there is no target")
        first = found[0]
        if target_host is not None and (first is None or first.host is None):
            return [None if t is None else t.with_host(target_host) for t in found]
        return found

    @staticmethod
    def canon_target_map_and_host(
        target_map: Mapping[Any, Any], target_host: Any = None
    ) -> tuple[dict[Target, Any], Target | None]:
        """Return what is given for targets, by Target, and the host that all have."""
        host: Target | None = None
        result: dict[Target, Any] = {}
        for key, value in target_map.items():
            target = Target(key) if not isinstance(key, Target) else key
            host = host or target.host or Target.canon_target(target_host)
            if target.host is None and host is not None:
                target = target.with_host(host)
            result[target] = value
        return result, host

    def __enter__(self) -> Target:
        self._outer.append(_current.get())
        _current.set(self)
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        _current.set(self._outer.pop())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and self._key() == other._key()

    def _key(self) -> tuple[Any, ...]:
        return self.base, tuple(sorted(self.options.items())), self.host

    def __hash__(self) -> int:
        return hash(self._key())

    def __str__(self) -> str:
        options = " ".join(f"-{name}={text}" for name, text in self._texts().items())
        return f"{self.kind.name} {options}".rstrip()

    def __repr__(self) -> str:
        return str(self)


_current: ContextVar[Target | None] = ContextVar("target", default=None)


class TargetKind:
    """The kind of a target."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def options(self) -> dict[str, str]:
        """The options that a target may have, each with the type of its value."""
        return self.options_from_name(self.name)

    @staticmethod
    def options_from_name(kind_name: str) -> dict[str, str]:
        """Return the options that targets of a kind may have."""
        _base_target(kind_name)
        names = sorted(_IGNORED | {"mattr", "mcpu", "mtriple"})
        return {name: "Array" if name in _LISTS else "runtime.String" for name in names}

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
    words = _words(target)
    kept = [word for word in words if not (word.startswith("-") and _name(word) in _IGNORED)]
    return base.Target.parse(" ".join(kept))


def _words(target: Any) -> list[str]:
    """Return the kind of a target and its options, each with one minus."""
    target = _loaded(target)
    if isinstance(target, dict):
        options = [f"-{k}={_text(v)}" for k, v in target.items() if k not in ("kind", "host")]
        return [str(target.get("kind", "")), *options]
    if not isinstance(target, str):
        raise error("unknown-target", f"a target is text, a dict or a Target, not `{target!r}`")
    return [f"-{w.removeprefix('--')}" if w.startswith("--") else w for w in target.split()]


def _loaded(target: Any) -> Any:
    """Return the dict that a text of JSON is; all else as it is."""
    if isinstance(target, str) and target.lstrip().startswith("{"):
        try:
            return json.loads(target)
        except ValueError as reason:
            raise error("unknown-target", f"the target is no JSON: {reason}") from None
    return target


def _host_of(target: Any) -> Any:
    target = _loaded(target)
    if isinstance(target, dict):
        return target.get("host")
    return target.host if isinstance(target, Target) else None


def _options_of(target: Any) -> dict[str, str]:
    """Return the options that change nothing, as texts."""
    if isinstance(target, Target):
        return dict(target.options)
    if isinstance(target, base.Target):
        return {}
    options = [w for w in _words(target)[1:] if w.startswith("-") and _name(w) in _IGNORED]
    given = {_name(w): w.partition("=")[2] or "1" for w in options}
    return {name: text for name, text in given.items() if (name, text) != ("keys", "cpu")}


def _name(option: str) -> str:
    return option.lstrip("-").partition("=")[0]


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(str(item) for item in value)
    return str(int(value)) if isinstance(value, bool) else str(value)


def _value(name: str, text: str) -> Any:
    if name in _LISTS:
        return text.split(",")
    return int(text) if text.isdigit() else text


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
        device: Device | None,
        target: Target | None = None,
        memory_scope: str = "",
    ) -> None:
        self.device = device
        self.target = target
        self.memory_scope = memory_scope
        self.device_type_int = device.device_type if device is not None else -1
        self.virtual_device_id = device.device_id if device is not None else -1

    @property
    def device_type(self) -> int:
        """DLPack's number of the kind of device, -1 where it is open."""
        return self.device_type_int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VirtualDevice) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.device, self.memory_scope))


# ARM machines by name: what TVM calls the model, triple, features and CPU.
_PHONE = ("arm64-linux-android", "+neon", "")
_ARM: dict[str, tuple[str, str, str, str]] = {
    "pixel2": ("snapdragon835", *_PHONE),
    **dict.fromkeys(("mate10", "mate10pro", "p20", "p20pro"), ("kirin970", *_PHONE)),
    "rasp3b": ("bcm2837", "armv7l-linux-gnueabihf", "+neon", ""),
    "rasp4b": ("bcm2711", "armv8l-linux-gnueabihf", "+neon", "cortex-a72"),
    "rasp4b64": ("bcm2711", "aarch64-linux-gnu", "+neon", "cortex-a72"),
    "rk3399": ("rk3399", "aarch64-linux-gnu", "+neon", ""),
    "pynq": ("pynq", "armv7a-linux-eabi", "+neon", ""),
    "ultra96": ("ultra96", "aarch64-linux-gnu", "+neon", ""),
    "beagleai": ("beagleai", "armv7a-linux-gnueabihf", "+neon,+vfp4,+thumb2", "cortex-a15"),
    "stm32mp1": ("stm32mp1", "armv7a-linux-gnueabihf", "+neon,+vfp4,+thumb2", "cortex-a7"),
    "thunderx": ("thunderx", "aarch64-linux-gnu", "+neon,+crc,+lse", "thunderxt88"),
}
# RISC-V CPUs by name: bits and ABI.
_RISCV = {
    "sifive-e31": (32, "ilp32"),
    "sifive-e76": (32, "ilp32"),
    "sifive-u54": (64, "lp64d"),
    "sifive-u74": (64, "lp64d"),
}

Options = str | Sequence[str] | None


def _machine(chosen: dict[str, str], options: Options) -> Target:
    own = ["-keys=arm_cpu,cpu", "-device=arm_cpu"]
    own += [f"-{name}={text}" for name, text in chosen.items() if text]
    given = options.split() if isinstance(options, str) else list(options or ())
    return Target(" ".join(["llvm", *own, *given]))


def arm_cpu(model: str = "unknown", options: Options = None) -> Target:
    """Return the target of a machine with an ARM CPU; of one that is not known by name, with what
    `options` say, such as `-mtriple=aarch64-linux-gnu`.
    """
    name, triple, features, cpu = _ARM.get(model, (model, "", "", ""))
    return _machine({"model": name, "mtriple": triple, "mattr": features, "mcpu": cpu}, options)


def rasp(options: Options = None) -> Target:
    """Return the target of a Raspberry Pi 3B."""
    return arm_cpu("rasp3b", options)


def riscv_cpu(model: str = "sifive-u54", options: Options = None) -> Target:
    """Return the target of a RISC-V CPU."""
    if model not in _RISCV:
        return _machine({"model": model}, options)
    bits, abi = _RISCV[model]
    triple = f"riscv{bits}-unknown-linux-gnu"
    return _machine({"model": model, "mtriple": triple, "mcpu": model, "mabi": abi}, options)


def create(target: Any) -> Target:
    """Return a target; the old name of `Target`."""
    return Target(target)


# A package to Python, whose modules are found by name.
__path__: list[str] = []

__getattr__ = lazy_names(
    "relayvm.target",
    {"codegen": "relayvm.relay.namespace.target_codegen:"},
    top="relayvm.target",
)
