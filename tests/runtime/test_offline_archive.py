"""The archive for hosts without internet: what it holds, and what is refused."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from k2ktui.errors import ConfigError, Refused
from k2ktui.runtime import artifacts
from k2ktui.runtime.offline_archive import DIRECTORY, read_archive, write_archive

COORDINATE = "org.example:part:1.0"
WHEELS = ("k2ktui-0.1.0-py3-none-any.whl", "pyspark-4.3.0-py2.py3-none-any.whl")


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    directory = tmp_path / "wheels"
    directory.mkdir()
    for name in WHEELS:
        (directory / name).write_bytes(name.encode())
    return directory


@pytest.fixture
def extracted(wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive, extracted by a user whose cache is empty."""
    jar = tmp_path / "repository/org/example/part/1.0/part-1.0.jar"
    jar.parent.mkdir(parents=True)
    jar.write_bytes(b"part jar")
    file = tmp_path / "archive.tar"
    content = write_archive(file, wheels, [artifacts.Classpath((COORDINATE,), (jar,))])
    assert (content.wheels, content.jars) == (2, 1)
    with tarfile.open(file) as archive:
        assert {(entry.uid, entry.uname, entry.mode) for entry in archive} == {(0, "", 0o644)}
        archive.extractall(tmp_path, filter="data")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / DIRECTORY


@pytest.fixture
def no_download(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> tuple[Path, ...]:
        raise AssertionError("a download was tried")

    monkeypatch.setattr(artifacts, "_fetch", fail)


@pytest.mark.usefixtures("no_download")
def test_jars_of_an_archive_are_not_downloaded(extracted: Path, tmp_path: Path) -> None:
    assert {wheel.name for wheel in (extracted / "wheels").iterdir()} == set(WHEELS)
    assert read_archive(extracted) == 1
    (jar,) = artifacts.classpath(COORDINATE).jars
    assert jar.read_bytes() == b"part jar"
    assert jar.is_relative_to(tmp_path / "cache")
    assert artifacts.coordinates_of(jar) == COORDINATE


def test_a_damaged_jar_is_refused(extracted: Path, tmp_path: Path) -> None:
    (jar,) = extracted.rglob("*.jar")
    jar.write_bytes(b"other bytes")
    with pytest.raises(Refused, match="damaged"):
        read_archive(extracted)
    jar.unlink()
    with pytest.raises(Refused, match="missing"):
        read_archive(extracted)
    assert not list((tmp_path / "cache").rglob("*.jar"))


@pytest.mark.parametrize(
    "listed",
    [
        "",
        "[]",
        "{}",
        '{"classpaths": 1}',
        '{"classpaths": [1]}',
        '{"classpaths": [{"coordinates": ["a"], "jars": ["b"]}]}',
        json.dumps({"classpaths": [{"coordinates": ["a"], "jars": {"../../b.jar": "0"}}]}),
        json.dumps({"classpaths": [{"coordinates": ["a"], "jars": {"/b.jar": "0"}}]}),
    ],
)
def test_another_directory_is_refused(listed: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not an extracted archive"):
        read_archive(tmp_path)
    (tmp_path / "kafka").mkdir()
    (tmp_path / "kafka" / "jars.json").write_text(listed)
    with pytest.raises(ConfigError, match="not an extracted archive"):
        read_archive(tmp_path)


def test_wheels_must_be_complete(wheels: Path, tmp_path: Path) -> None:
    (wheels / WHEELS[1]).unlink()
    with pytest.raises(ConfigError, match="no wheel of pyspark") as raised:
        write_archive(tmp_path / "archive.tar", wheels, [])
    assert "pip wheel" in raised.value.hint
    assert not (tmp_path / "archive.tar").exists()


def test_an_existing_file_is_kept(wheels: Path, tmp_path: Path) -> None:
    file = tmp_path / "archive.tar"
    file.write_text("mine")
    with pytest.raises(Refused, match="already exists"):
        write_archive(file, wheels, [])
    assert file.read_text() == "mine"
    with pytest.raises(ConfigError, match="cannot be written"):
        write_archive(tmp_path / "none" / "archive.tar", wheels, [])
