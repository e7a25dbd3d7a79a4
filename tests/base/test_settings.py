"""Environment switches and targets."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from relayvm.base.diagnostics import RelayError
from relayvm.base.settings import SETTINGS, flag, setting
from relayvm.base.target import Target


def test_a_switch_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAYVM_VERIFY", "1")
    monkeypatch.setenv("RELAYVM_DUMP", "fuse, to_anf")
    assert flag("RELAYVM_VERIFY")
    assert setting("RELAYVM_DUMP") == ("fuse", "to_anf")


@pytest.mark.parametrize(("name", "text"), [("RELAYVM_TIME", "maybe"), ("RELAYVM_CACHE_MIB", "-1")])
def test_an_unreadable_value_names_the_variable(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(RelayError, match=f"environment variable `{name}` is `{text}`"):
        setting(name)


def test_a_folder_of_an_unknown_user_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAYVM_CACHE", "~nobody-of-this-name/cache")
    with pytest.raises(RelayError, match=r"`RELAYVM_CACHE` is `~nobody.*home"):
        setting("RELAYVM_CACHE")


def test_a_user_without_a_home_has_no_cache() -> None:
    """As containers run programs: by a number that no user has."""
    code = """if True:
        import os, pwd
        def unknown(_): raise KeyError
        pwd.getpwuid = unknown
        from relayvm.base.settings import setting
        print(setting("RELAYVM_CACHE"))
    """
    hidden = ("HOME", "XDG_CACHE_HOME", "RELAYVM_CACHE")
    environment = {name: text for name, text in os.environ.items() if name not in hidden}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "None\n"


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_every_default_can_be_read(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.delenv(name, raising=False)
    setting(name)


@pytest.mark.parametrize(
    "text", ["cpu", "cpu -mcpu=skylake-avx512", "cpu -mtriple=a-b -mattr=+neon"]
)
def test_target_text_round_trips(text: str) -> None:
    assert str(Target.parse(text)) == text


@pytest.mark.parametrize("text", ["", "gpu", "cpu -mcpu", "cpu -mcpu=", "cpu -x=1"])
def test_a_wrong_target_is_refused(text: str) -> None:
    with pytest.raises(RelayError) as caught:
        Target.parse(text)
    assert caught.value.code == "unknown-target"
