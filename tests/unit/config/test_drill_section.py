"""The section ``drill`` of a pipeline file."""

from __future__ import annotations

import pytest

from k2ktui.engine.drill.objectives import Objectives
from k2ktui.errors import ConfigError
from tests.unit.config.files import MINIMAL, Files


def test_there_are_no_objectives_by_default(files: Files) -> None:
    assert not files.load(MINIMAL).config.drill.objectives.values


def test_objectives(files: Files) -> None:
    given = "{rpoRecords: 500, rpoTime: 30 seconds, rtoTime: 15 minutes}"
    objectives = files.load(f"{MINIMAL}\ndrill: {{objectives: {given}}}").config.drill.objectives
    assert objectives.values == Objectives(500, 30.0, 900.0)
    one = files.load(f"{MINIMAL}\ndrill: {{objectives: {{rpoRecords: 0}}}}").config.drill.objectives
    assert one.values == Objectives(0, None, None)


WRONG = [("rpoRecords", "-1"), ("rpoTime", "soon"), ("rtoTime", "-3 s"), ("rto", "1 s")]


@pytest.mark.parametrize(("key", "value"), WRONG)
def test_wrong_values_are_refused(files: Files, key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=rf"drill\.objectives\.{key}"):
        files.load(f"{MINIMAL}\ndrill: {{objectives: {{{key}: {value}}}}}")


def test_reports_are_not_signed_by_default(files: Files) -> None:
    assert files.load(MINIMAL).config.drill.sign is None


def test_the_key_that_signs(files: Files) -> None:
    given = "{key: /etc/k2ktui/sign.pem, passphraseFile: /run/secrets/p, directory: /srv/evidence}"
    sign = files.load(f"{MINIMAL}\ndrill: {{sign: {given}}}").config.drill.sign
    assert sign is not None
    assert (sign.key, sign.passphrase_file, sign.directory) == (
        *("/etc/k2ktui/sign.pem", "/run/secrets/p", "/srv/evidence"),
    )


@pytest.mark.parametrize(
    ("key", "given"),
    [
        ("key", "{key: sign.pem}"),
        ("key", "{directory: /srv}"),
        ("directory", "{key: /k, directory: evidence}"),
        ("passphraseFile", "{key: /k, passphraseFile: p}"),
        ("passphrase", "{key: /k, passphrase: secret}"),
    ],
)
def test_wrong_keys_of_signing_are_refused(files: Files, key: str, given: str) -> None:
    with pytest.raises(ConfigError, match=rf"drill\.sign\.?{key}|drill\.sign") as caught:
        files.load(f"{MINIMAL}\ndrill: {{sign: {given}}}")
    assert key in caught.value.message
