"""How requantization rounds and computes where a call does not say it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from relayvm.base.diagnostics import error


@dataclass(frozen=True, slots=True)
class RequantizeConfig:
    """The settings of a `with requantize_config(...)`; None is left to the target."""

    rounding: str | None = None
    compute_dtype: str | None = None

    def given(self, name: str) -> bool:
        """Tell whether the configuration sets this."""
        return getattr(self, name) is not None


_NOTHING = RequantizeConfig()
_CURRENT: ContextVar[RequantizeConfig] = ContextVar("requantize", default=_NOTHING)


def current_requantize_config() -> RequantizeConfig:
    """Return the innermost configuration that is open, or one that sets nothing."""
    return _CURRENT.get()


@contextmanager
def requantize_config(**kwargs: str | None) -> Iterator[RequantizeConfig]:
    """Set `rounding` (`UPWARD` or `TONEAREST`) and `compute_dtype` for the calls built inside."""
    for name in kwargs:
        if name not in ("rounding", "compute_dtype"):
            message = f"`requantize_config` has no option `{name}`; it has `rounding` and"
            raise error("bad-option", f"{message} `compute_dtype`")
    config = RequantizeConfig(**kwargs)
    token = _CURRENT.set(config)
    try:
        yield config
    finally:
        _CURRENT.reset(token)
