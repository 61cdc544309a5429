"""A program that is an archive in a Maven repository is downloaded, verified and unpacked once."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from k2ktui.errors import ConnectionFailed
from k2ktui.progress import ProgressStep
from k2ktui.runtime import artifacts
from k2ktui.runtime.program_archive import ProgramArchive, unpack_program
from tests.support.clusters.tls import certificate_pem, make_leaf, make_root
from tests.support.http.maven import Repository, only_repository


def _packed(name: str, content: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


PACKED = _packed("lib/main.jar", b"program")
PROGRAM = ProgramArchive(
    "Example", "org.example", "program", "1.0", "all", hashlib.sha256(PACKED).hexdigest()
)


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Repository]:
    with only_repository(monkeypatch, tmp_path / "cache") as made:
        made.files[f"/{PROGRAM.path}"] = PACKED
        yield made


def test_a_program_is_downloaded_and_unpacked_once(repository: Repository) -> None:
    steps: list[ProgressStep] = []
    with ThreadPoolExecutor(4) as pool:
        directories = set(pool.map(lambda _: unpack_program(PROGRAM, steps.append), range(4)))
    (directory,) = directories
    assert (directory / "lib" / "main.jar").read_bytes() == b"program"
    assert repository.asked == [f"/{PROGRAM.path}"]
    assert steps[-1].text == "Downloading Example (MiB)"
    assert not [path for path in directory.parent.iterdir() if path.name.startswith(".new-")]


def test_a_damaged_program_is_refused_and_not_kept(repository: Repository) -> None:
    repository.files[f"/{PROGRAM.path}"] = PACKED[:-1]
    with pytest.raises(ConnectionFailed, match=r"Example could not be downloaded: .* is damaged"):
        unpack_program(PROGRAM)
    assert not PROGRAM.directory.exists()
    repository.files[f"/{PROGRAM.path}"] = PACKED
    assert unpack_program(PROGRAM).is_dir()


@pytest.mark.usefixtures("repository")
def test_a_program_that_no_repository_has_is_an_operators_error() -> None:
    with pytest.raises(
        ConnectionFailed, match=r"program-2\.0-all\.tar\.gz was not found"
    ) as raised:
        unpack_program(replace(PROGRAM, version="2.0"))
    assert "HTTPS_PROXY" in raised.value.hint


def test_an_archive_cannot_write_outside_its_directory(repository: Repository) -> None:
    packed = _packed("../outside", b"program")
    hostile = replace(PROGRAM, sha256=hashlib.sha256(packed).hexdigest())
    repository.files[f"/{PROGRAM.path}"] = packed
    with pytest.raises(ConnectionFailed):
        unpack_program(hostile)
    assert not list(PROGRAM.directory.parent.glob("**/outside"))


def test_an_untrusted_certificate_is_named_and_can_be_trusted(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A proxy that inspects TLS has its own certificate authority."""
    root = make_root()
    leaf = make_leaf(root, "repository", "localhost").pem_file(tmp_path / "server.pem")
    with only_repository(monkeypatch, tmp_path / "other", leaf):
        with pytest.raises(ConnectionFailed, match="could not be downloaded") as refused:
            unpack_program(PROGRAM)
        assert "certificate is not trusted here" in refused.value.hint
        with pytest.raises(ConnectionFailed, match="could not be downloaded") as also:
            artifacts.classpath("org.example:program:1.0")
        assert "certificate is not trusted here" in also.value.hint
        authority = tmp_path / "authority.pem"
        authority.write_text(certificate_pem(root.certificate))
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority))
        with pytest.raises(ConnectionFailed, match="could not be downloaded") as trusted:
            unpack_program(PROGRAM)
        assert "Check the network" in trusted.value.hint  # it has no such file
