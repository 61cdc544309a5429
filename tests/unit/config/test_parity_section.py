"""The section ``parity`` of a pipeline file."""

from __future__ import annotations

import pytest

from k2ktui.engine.parity.rules import ParityKind
from k2ktui.errors import ConfigError
from tests.unit.config.files import MINIMAL, Files


def test_without_the_section_everything_is_reported(files: Files) -> None:
    parity = files.load(MINIMAL).config.parity
    assert {parity.section_of(kind).mode for kind in ParityKind} == {"report"}
    assert parity.acls.write == "report"


def test_the_section_of_acls(files: Files) -> None:
    acls = "{mode: off, include: ['User:a.*'], exclude: ['User:ab'], write: now}"
    parity = files.load(f"{MINIMAL}\nparity: {{acls: {acls}}}").config.parity
    rules = parity.section_of(ParityKind.ACL)
    assert rules.mode == "off" and parity.acls.write == "now"
    assert [n for n in ("User:a", "User:ab", "User:b") if rules.compares(n)] == ["User:a"]


def test_a_mode_or_a_pattern_that_is_none(files: Files) -> None:
    with pytest.raises(ConfigError, match=r"parity\.quotas\.mode"):
        files.load(f"{MINIMAL}\nparity: {{quotas: {{mode: sometimes}}}}")
    with pytest.raises(ConfigError, match="valid regular expression"):
        files.load(f"{MINIMAL}\nparity: {{topicConfigs: {{exclude: ['(']}}}}")
