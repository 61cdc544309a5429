"""Download programs that Maven repositories hold as archives, and unpack them in the user's cache.

Unlike the jars of :mod:`k2ktui.runtime.artifacts`, such an archive has no dependencies: it contains
all that it needs. It is streamed to a file, verified and unpacked once; later starts only check
that the directory exists. Concurrent calls are safe: the first one does the work.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from k2ktui.errors import ConnectionFailed
from k2ktui.progress import Progress, ProgressStep
from k2ktui.runtime.downloads import download_hint
from k2ktui.runtime.paths import cache_dir, locked

_TIMEOUT_SECONDS = 30
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ProgramArchive:
    """A ``tar.gz`` archive in Maven repositories.

    Attributes:
        title: name of the program in messages.
        group, artifact, version, classifier: its coordinates.
        sha256: of the archive; another file is refused.
    """

    title: str
    group: str
    artifact: str
    version: str
    classifier: str
    sha256: str

    @property
    def path(self) -> str:
        """Its path in a repository."""
        file = f"{self.artifact}-{self.version}-{self.classifier}.tar.gz"
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{file}"

    @property
    def directory(self) -> Path:
        """The directory that it is unpacked to."""
        return cache_dir("programs") / f"{self.artifact}-{self.version}-{self.sha256[:12]}"


def unpack_program(archive: ProgramArchive, progress: Progress | None = None) -> Path:
    """Return the directory of the unpacked archive, downloading it if it is missing.

    Args:
        archive: what to download.
        progress: called during the download, with sizes in MiB.

    Raises:
        ConnectionFailed: the archive cannot be downloaded, its checksum differs, or there is no
            space for it.
    """
    directory = archive.directory
    if directory.is_dir():
        return directory
    with locked(directory.parent / ".lock"):
        if directory.is_dir():  # another process has finished meanwhile
            return directory
        try:
            with tempfile.TemporaryDirectory(dir=directory.parent, prefix=".new-") as unfinished:
                file = Path(unfinished, "archive")
                with file.open("w+b") as content:
                    _download(archive, content, progress or (lambda step: None))
                    content.seek(0)
                    unpacked = Path(unfinished, "unpacked")
                    with tarfile.open(fileobj=content, mode="r:gz") as tar:
                        tar.extractall(unpacked, filter="data")
                os.rename(unpacked, directory)
        except (RuntimeError, OSError, tarfile.TarError) as error:
            raise ConnectionFailed(
                f"{archive.title} could not be downloaded: {error}",
                unchanged="Nothing was started.",
                hint=download_hint(error, " and the free space of the cache"),
            ) from error
    return directory


def _download(archive: ProgramArchive, content: IO[bytes], progress: Progress) -> None:
    """Write the archive from the first repository that has it.

    Raises:
        RuntimeError: no repository has it, or its checksum differs.
    """
    from jgo.maven import MavenContext
    from jgo.util import http

    for repository in MavenContext().remote_repos.values():
        url = f"{repository}/{archive.path}"
        with http.get(url, timeout=_TIMEOUT_SECONDS, stream=True) as response:
            if response.status_code == 404:
                continue
            response.raise_for_status()
            total = int(response.headers.get("Content-Length", 0))
            digest = hashlib.sha256()
            for chunk in response.iter_content(_CHUNK_BYTES):
                content.write(chunk)
                digest.update(chunk)
                text = f"Downloading {archive.title} (MiB)"
                progress(ProgressStep(text, content.tell() >> 20, total >> 20))
        if digest.hexdigest() != archive.sha256:
            raise RuntimeError(f"{Path(archive.path).name} is damaged (checksum mismatch)")
        return
    raise RuntimeError(f"{Path(archive.path).name} was not found in any repository")
