"""`tvm.testing.plugin`: tests that ask for `target` and `dev` run for each of those that are here.

A `conftest.py` takes it in: `pytest_plugins = ["relayvm.testing.plugin"]`.
"""

from __future__ import annotations

from typing import Any

from relayvm.relay.namespace.testing import enabled_targets


def pytest_generate_tests(metafunc: Any) -> None:
    """Give a test its targets, unless it names them itself."""
    asked = [name for name in ("target", "dev") if name in metafunc.fixturenames]
    if not asked or _names_its_own(metafunc.definition):
        return
    rows = [
        tuple(value for name, value in (("target", t), ("dev", d)) if name in asked)
        for t, d in enabled_targets()
    ]
    ids = [target for target, _ in enabled_targets()]
    metafunc.parametrize(asked, rows, ids=ids)


def _names_its_own(test: Any) -> bool:
    marks = test.iter_markers("parametrize")
    names = (mark.args[0] if mark.args else mark.kwargs["argnames"] for mark in marks)
    lists = (name.split(",") if isinstance(name, str) else name for name in names)
    return any("target" in (n.strip() for n in given) for given in lists)
