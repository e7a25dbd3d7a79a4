"""`Executor` and `Runtime`: what old programs choose for `relay.build`, by name and options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from relayvm.base.diagnostics import error


class _Choice:
    """A name of a list, with options of its own."""

    flag_registry_name = ""
    known: ClassVar[dict[str, tuple[str, ...]]] = {}

    def __init__(self, name: str, options: Mapping[str, Any] | None = None) -> None:
        if name not in self.known:
            listed = ", ".join(f"`{n}`" for n in self.known)
            message = f"there is no {self.flag_registry_name} `{name}`; known are {listed}"
            raise error("bad-option", message)
        self.name = name
        self.options = dict(options or {})
        for option in self.options:
            if option not in self.known[name]:
                listed = ", ".join(f"`{n}`" for n in self.known[name]) or "none"
                message = f"{self.flag_registry_name} `{name}` has no option `{option}`; it has"
                raise error("bad-option", f"{message} {listed}")

    def __getitem__(self, name: str) -> Any:
        return self.options[name]

    def __contains__(self, name: object) -> bool:
        return name in self.options

    def __eq__(self, other: object) -> bool:
        same = type(other) is type(self)
        return same and (self.name, self.options) == (other.name, other.options)  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.options})"

    @classmethod
    def list_registered(cls) -> list[str]:
        """Return the known names."""
        return list(cls.known)

    @classmethod
    def _options_of(cls, choice: Any) -> dict[str, str]:
        texts = ("interface-api",)
        names = cls.known[cls(str(choice)).name]
        return {name: "runtime.String" if name in texts else "IntImm" for name in names}


class Executor(_Choice):
    """The executor that a program is built for: all of them run on the machine here."""

    flag_registry_name = "executor"
    known: ClassVar[dict[str, tuple[str, ...]]] = {
        "graph": ("link-params",),
        "aot": (
            "link-params",
            "unpacked-api",
            "interface-api",
            "workspace-byte-alignment",
            "constant-byte-alignment",
        ),
    }

    @classmethod
    def list_registered_options(cls, executor: Any) -> dict[str, str]:
        """Return the options of an executor, by name or as it is."""
        return cls._options_of(executor)


class Runtime(_Choice):
    """The runtime that a program is built for: all of them are the machine here."""

    flag_registry_name = "runtime"
    known: ClassVar[dict[str, tuple[str, ...]]] = {"cpp": ("system-lib",), "crt": ("system-lib",)}

    @classmethod
    def list_registered_options(cls, runtime: Any) -> dict[str, str]:
        """Return the options of a runtime, by name or as it is."""
        return cls._options_of(runtime)
