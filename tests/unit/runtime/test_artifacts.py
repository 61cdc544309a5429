"""Kafka's jars are fetched once, whole, and remembered."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from k2ktui.errors import ConnectionFailed
from k2ktui.progress import ProgressStep
from k2ktui.runtime import artifacts
from tests.support.http.maven import Repository, only_repository

COORDINATE = "org.example:part:1.0"
NEEDED = "org.example:needed:2.0"


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Repository]:
    """The only repository that is asked, and an empty cache."""
    with only_repository(monkeypatch, tmp_path / "cache") as made:
        made.add(NEEDED, b"needed jar")
        made.add(COORDINATE, b"part jar", NEEDED)
        yield made


def test_dependencies_are_fetched_once(repository: Repository) -> None:
    steps: list[ProgressStep] = []
    resolved = artifacts.classpath(COORDINATE, progress=steps.append)
    assert [jar.read_bytes() for jar in resolved.jars] == [b"part jar", b"needed jar"]
    assert steps[-1] == ProgressStep("Downloading Apache Kafka", 2, 2)
    assert resolved.argument == f"{resolved.jars[0]}:{resolved.jars[1]}"

    repository.asked.clear()
    assert artifacts.classpath(COORDINATE) == resolved
    assert repository.asked == []


def test_a_copy_of_the_directory_needs_no_download(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    artifacts.classpath(COORDINATE)
    repository.asked.clear()
    shutil.copytree(artifacts.jars_directory(), tmp_path / "other/k2ktui/maven")
    shutil.rmtree(artifacts.jars_directory())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    jars = artifacts.classpath(COORDINATE).jars
    assert [jar.read_bytes() for jar in jars] == [b"part jar", b"needed jar"]
    assert all(jar.is_relative_to(tmp_path / "other") for jar in jars)
    assert repository.asked == []


def test_missing_or_cut_jar_is_fetched_again(repository: Repository) -> None:
    resolved = artifacts.classpath(COORDINATE)
    resolved.jars[0].unlink()
    assert artifacts.classpath(COORDINATE) == resolved
    assert resolved.jars[0].read_bytes() == b"part jar"
    resolved.jars[1].write_bytes(b"cut")
    assert artifacts.classpath(COORDINATE).jars[1].read_bytes() == b"needed jar"


def test_damaged_download_is_refused_and_not_kept(repository: Repository, tmp_path: Path) -> None:
    path = repository.add(NEEDED, b"needed jar")
    repository.files[path] = b"other bytes"
    with pytest.raises(ConnectionFailed, match="damaged"):
        artifacts.classpath(COORDINATE)
    assert not list((tmp_path / "cache").rglob("needed*.jar"))
    repository.add(NEEDED, b"needed jar")
    assert len(artifacts.classpath(COORDINATE).jars) == 2


def test_lock_saves_looking_up_and_pins_the_bytes(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    sums = {
        COORDINATE: hashlib.sha256(b"part jar").hexdigest(),
        NEEDED: hashlib.sha256(b"another jar").hexdigest(),
    }
    monkeypatch.setattr(artifacts, "read_lock", lambda coordinates: sums)
    with pytest.raises(ConnectionFailed, match="damaged"):
        artifacts.classpath(COORDINATE)
    repository.add(NEEDED, b"another jar")
    assert len(artifacts.classpath(COORDINATE).jars) == 2
    assert not [path for path in repository.asked if path.endswith((".pom", ".sha1"))]


def test_unknown_coordinate_is_an_operators_error(repository: Repository) -> None:
    with pytest.raises(ConnectionFailed, match="absent") as raised:
        artifacts.classpath("org.example:absent:1.0")
    assert "HTTPS_PROXY" in raised.value.hint


def test_threads_share_one_download(repository: Repository) -> None:
    with ThreadPoolExecutor(4) as pool:
        resolved = list(pool.map(artifacts.classpath, [COORDINATE] * 4))
    assert len(set(resolved)) == 1
    assert len([path for path in repository.asked if path.endswith(".jar")]) == 2


def test_lock_covers_what_a_node_needs() -> None:
    sums = artifacts.read_lock((artifacts.SERVER, artifacts.LOGGING))
    assert {artifacts.SERVER, artifacts.LOGGING} <= set(sums)
    assert all(len(digest) == 64 for digest in sums.values())


@pytest.mark.slow
def test_lock_is_what_jgo_resolves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wanted = (artifacts.SERVER, artifacts.LOGGING)
    locked = list(artifacts.read_lock(wanted))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(artifacts, "read_lock", lambda coordinates: {})
    assert [artifacts.coordinates_of(jar) for jar in artifacts.classpath(*wanted).jars] == locked
