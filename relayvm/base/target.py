"""Targets: the devices and CPUs that kernels are compiled for."""

from __future__ import annotations

from dataclasses import dataclass

from relayvm.base.diagnostics import error

# The levels of x86-64 that code is made for, with those of their features that LLVM and the
# loader's check know by name.
_LEVEL_3 = ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "popcnt", "sse4.2")
_LEVEL_4 = (*_LEVEL_3, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")
X86_LEVELS = {"x86-64-v3": _LEVEL_3, "x86-64-v4": _LEVEL_4}


@dataclass(frozen=True, slots=True)
class Target:
    """A device kind with the CPU it is compiled for.

    `cpu` and `features` are LLVM's names; empty means the host's. Text form: `cpu`, `cpu
    -mcpu=skylake-avx512`, `cpu -mcpu=generic -mattr=+neon -mtriple=aarch64-linux-gnu`.
    """

    kind: str = "cpu"
    triple: str = ""
    cpu: str = ""
    features: str = ""

    def __str__(self) -> str:
        parts = [self.kind]
        for option, value in (
            ("mtriple", self.triple),
            ("mcpu", self.cpu),
            ("mattr", self.features),
        ):
            if value:
                parts.append(f"-{option}={value}")
        return " ".join(parts)

    @classmethod
    def parse(cls, text: str | Target) -> Target:
        """Return the target that `text` describes; raises RelayError `unknown-target`.

        `llvm` is accepted as another name of `cpu`.
        """
        if isinstance(text, Target):
            return text
        if not isinstance(text, str):
            raise error("unknown-target", f"a target is text or a Target, not `{text!r}`")
        words = text.split()
        kind = {"llvm": "cpu"}.get(words[0], words[0]) if words else ""
        if kind != "cpu":
            raise error("unknown-target", f"there is no target `{text}`; known is `cpu`")
        fields = {"mtriple": "triple", "mcpu": "cpu", "mattr": "features"}
        values: dict[str, str] = {}
        for word in words[1:]:
            name, equals, value = word.removeprefix("-").partition("=")
            if name not in fields or not equals or not value:
                options = ", ".join(f"-{o}=..." for o in fields)
                raise error(
                    "unknown-target",
                    f"`{word}` is not an option of target `{kind}`; known are {options}",
                )
            values[fields[name]] = value
        return cls(kind, **values)
