"""The table of environment switches, and the only place that reads the environment."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from relayvm.base.diagnostics import error


@dataclass(frozen=True, slots=True)
class Setting:
    """One environment switch: its name, default, how its text is read, and what it does."""

    name: str
    default: str
    read: Callable[[str], object]
    meaning: str


def _flag(text: str) -> bool:
    if text in ("", "0", "false", "no", "off"):
        return False
    if text in ("1", "true", "yes", "on"):
        return True
    raise ValueError("expected 0 or 1")


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError("expected a number of at least 0")
    return value


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _path(text: str) -> Path | None:
    try:
        return Path(text).expanduser() if text else None
    except RuntimeError as reason:  # no such user, or one without a home
        raise ValueError(reason) from None


def _engine(text: str) -> str:
    if text not in ("auto", "interpreter", "jit"):
        raise ValueError("expected `auto`, `interpreter` or `jit`")
    return text


def _default_cache() -> str:
    """Return the user's folder; empty for one without a home, as users of containers often are."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    is_known = not os.path.expanduser(base).startswith("~")
    return os.path.join(base, "relayvm") if is_known else ""


SETTINGS: dict[str, Setting] = {
    row.name: row
    for row in (
        Setting(
            "RELAYVM_DUMP",
            "",
            _names,
            "passes whose result is printed to stderr, by name; `all` for every one",
        ),
        Setting("RELAYVM_TIME", "0", _flag, "1 prints the time of each pass to stderr"),
        Setting(
            "RELAYVM_TRACE",
            "0",
            _flag,
            "1 prints each instruction that machines run, and the values it writes, to stderr",
        ),
        Setting(
            "RELAYVM_KEEP",
            "",
            _path,
            "folder that receives all artifacts by stage: relay, nests, LLVM IR, bytecode",
        ),
        Setting("RELAYVM_VERIFY", "0", _flag, "1 verifies the module after every pass"),
        Setting(
            "RELAYVM_CACHE",
            _default_cache(),
            _path,
            "folder of compiled kernels; empty turns the cache off",
        ),
        Setting(
            "RELAYVM_CACHE_MIB",
            "1024",
            _count,
            "bound of the kernel cache in MiB; the oldest entries go first",
        ),
        Setting(
            "RELAYVM_COMPILE_WORKERS",
            "",
            lambda t: _count(t) if t else None,
            "processes that compile kernels; empty means the cores, 0 compiles in this process",
        ),
        Setting(
            "RELAYVM_NUM_THREADS",
            "",
            lambda t: _count(t) if t else None,
            "threads that the kernels of a machine may use; empty means the cores",
        ),
        Setting(
            "RELAYVM_ENGINE",
            "auto",
            _engine,
            "engine of machines that ask for none: `auto`, `interpreter` or `jit`",
        ),
        Setting(
            "RELAYVM_RUNTIME",
            "",
            str,
            "build of the runtime to use: empty, `stress`, `sanitize` or `tsan` (a test mode)",
        ),
        Setting(
            "RELAYVM_UNIFORM",
            "0",
            _flag,
            "1 lowers every program with uniform layouts instead of instances (a test mode)",
        ),
    )
}


def setting(name: str) -> object:
    """Return the value of a switch; raises RelayError `bad-setting` for a text it cannot read."""
    row = SETTINGS[name]
    text = os.environ.get(name, row.default)
    try:
        return row.read(text)
    except ValueError as reason:
        raise error("bad-setting", f"environment variable `{name}` is `{text}`: {reason}") from None


def flag(name: str) -> bool:
    """Return the value of an on/off switch."""
    value = setting(name)
    assert isinstance(value, bool)
    return value
