"""What merges: the core in C where it was compiled, otherwise plain Python; and who says so."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from k2ktui.errors import ConfigError, K2kError
from k2ktui.log import core
from k2ktui.native import binding
from k2ktui.replication.preflight.checks import CheckOutcome
from k2ktui.replication.preflight.suite import check_core


@pytest.fixture(autouse=True)
def first_use() -> Iterator[None]:
    """Let each test load the library for the first time."""
    core._library.cache_clear()  # noqa: SLF001 - a process loads it once
    yield
    core._library.cache_clear()  # noqa: SLF001


@pytest.mark.skipif(os.environ.get("K2KTUI_NATIVE") == "off", reason="it is switched off")
def test_the_installed_package_has_the_library() -> None:
    """README's test command compiles it; without it, all other tests would be of plain Python."""
    assert core.why_not() == ""
    assert core.core() is core.core(), "one context for a thread"
    assert check_core().outcome is CheckOutcome.PASS


def test_without_the_library_plain_python_copies_and_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("K2KTUI_NATIVE", raising=False)
    monkeypatch.setattr(binding, "__file__", str(tmp_path / "binding.py"))
    with caplog.at_level(logging.INFO):
        assert core.core() is None
    assert core.why_not() == "the package was installed without it"
    assert "copied in plain Python, slower: the package was installed without it" in caplog.text
    check = check_core()
    assert check.outcome is CheckOutcome.WARN
    assert "installed without it" in check.detail


def test_it_can_be_required(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("K2KTUI_NATIVE", "require")
    monkeypatch.setattr(binding, "__file__", str(tmp_path / "binding.py"))
    with pytest.raises(K2kError, match="requires it"):
        core.core()
    assert check_core().outcome is CheckOutcome.FAIL


def test_an_unknown_value_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("K2KTUI_NATIVE", "of")
    with pytest.raises(ConfigError, match="not off or require"):
        core.core()


def test_a_damaged_library_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("K2KTUI_NATIVE", raising=False)
    (tmp_path / binding.LIBRARY).write_bytes(b"\x7fELF")
    with mock.patch.object(binding, "__file__", str(tmp_path / "binding.py")):
        assert "cannot be loaded" in core.why_not()
