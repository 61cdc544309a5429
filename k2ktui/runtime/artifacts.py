"""Download Apache Kafka's jars (Maven artifacts) into the user's cache.

:func:`classpath` resolves coordinates with jgo, downloads missing jars, and caches the result, so
that later starts only check that the files exist. Concurrent calls from several processes and
threads are safe: the first one does the work, the others wait for it.

``artifacts.lock.json``, shipped with the package, holds the demo's resolved artifacts with their
SHA-256. With it, a first start downloads jars immediately and in parallel instead of reading about
eighty POM files one by one, and runs exactly the files that were tested. After changing a version,
run ``python -m k2ktui.runtime.artifacts``.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from k2ktui.engine.strict_json import parse_object
from k2ktui.errors import ConnectionFailed
from k2ktui.progress import Progress, ProgressStep
from k2ktui.runtime.downloads import download_hint
from k2ktui.runtime.paths import cache_dir, locked, write_atomically

KAFKA_VERSION = "4.4.0"
SERVER = f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}"
# Of MirrorMaker 2, the peer of tests and benchmarks: there was no connect-mirror 4.4.0 to download
# when 4.4.0 became the version of the brokers.
CONNECT_VERSION = "4.3.1"
CONNECT_RUNTIME = f"org.apache.kafka:connect-runtime:{CONNECT_VERSION}"
CONNECT_MIRROR = f"org.apache.kafka:connect-mirror:{CONNECT_VERSION}"
# Logs to standard error, which ``child_process`` redirects to the process's log file.
LOGGING = "org.slf4j:slf4j-simple:1.7.36"

_LOCK_FILE = Path(__file__).with_name("artifacts.lock.json")
_DOWNLOADS_AT_ONCE = 6
_TIMEOUT_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Classpath:
    """The jars of Maven coordinates and of their runtime dependencies."""

    coordinates: tuple[str, ...]
    jars: tuple[Path, ...]

    @property
    def argument(self) -> str:
        """The value of Java's ``-cp`` option."""
        return os.pathsep.join(str(jar) for jar in self.jars)


def classpath(
    *coordinates: str, progress: Progress | None = None, fresh: bool = False
) -> Classpath:
    """Return the jars of ``coordinates`` (``group:artifact:version``), downloading missing ones.

    Args:
        coordinates: required artifacts, in class path order; dependencies are added.
        progress: called during resolution and download.
        fresh: ignore the cached resolution.

    Raises:
        ConnectionFailed: a file cannot be downloaded, or its checksum differs.
    """
    cache = jars_directory()
    repository, memory = cache / "repository", _memory(cache, coordinates)
    if fresh:
        memory.unlink(missing_ok=True)
    known = _recall(memory, coordinates, repository)
    if known:
        return known
    with locked(cache / ".lock"):
        known = _recall(memory, coordinates, repository)  # another process may have finished
        if known:
            return known
        jars = _fetch(coordinates, repository, progress or (lambda step: None))
        _remember(memory, coordinates, jars)
        return Classpath(coordinates, jars)


def jars_directory() -> Path:
    """Return the directory that holds all jars; a copy of it saves another user the downloads."""
    return cache_dir("maven")


def path_in_repository(jar: Path) -> PurePosixPath:
    """Return a jar's path relative to the repository directory that it is in."""
    parts = jar.parts
    return PurePosixPath(*parts[len(parts) - parts[::-1].index("repository") :])


def _memory(cache: Path, coordinates: Sequence[str]) -> Path:
    return cache / "classpaths" / f"{_digest(coordinates)}.json"


def _digest(coordinates: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(coordinates).encode()).hexdigest()[:16]


def _recall(memory: Path, coordinates: tuple[str, ...], repository: Path) -> Classpath | None:
    try:
        noted = parse_object(memory.read_bytes())
        files = {repository / name: int(size) for name, size in noted["jars"]}
        if tuple(noted["coordinates"]) != coordinates:
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None  # missing or damaged: resolve again
    spoilt = [jar for jar, size in files.items() if not _whole(jar, size)]
    return None if spoilt else Classpath(coordinates, tuple(files))


def _whole(jar: Path, size: int) -> bool:
    """Whether the file is complete; removes a partial file so that it is downloaded again."""
    try:
        if jar.stat().st_size == size:
            return True
        jar.unlink()
    except FileNotFoundError:
        pass
    return False


def _remember(memory: Path, coordinates: tuple[str, ...], jars: tuple[Path, ...]) -> None:
    note = {
        "coordinates": coordinates,
        # Relative, because a host without internet gets a copy of the directory (deployment.md).
        "jars": [(str(path_in_repository(jar)), jar.stat().st_size) for jar in jars],
    }
    write_atomically(memory, json.dumps(note, indent=1).encode())


def _fetch(coordinates: tuple[str, ...], repository: Path, progress: Progress) -> tuple[Path, ...]:
    progress(ProgressStep("Resolving Apache Kafka's dependencies"))
    try:
        artifacts = _resolve(coordinates, repository)
        return _download_all(artifacts, progress)
    except (RuntimeError, OSError) as error:
        raise ConnectionFailed(
            f"Apache Kafka could not be downloaded: {error}",
            unchanged="Nothing was started; completed downloads are kept.",
            hint=download_hint(error),
        ) from error


def _resolve(coordinates: tuple[str, ...], repository: Path) -> list[Any]:
    from jgo.maven import MavenContext
    from jgo.parse import Coordinate

    locked_sums = read_lock(coordinates)
    context = MavenContext(
        resolver=_resolver(locked_sums), repo_cache=repository, timeout=_TIMEOUT_SECONDS
    )

    def dependency(text: str) -> Any:
        return context.create_dependency(replace(Coordinate.parse(text), scope="compile"))

    if locked_sums:
        return [dependency(text).artifact for text in locked_sums]
    asked, needed = context.resolver.resolve([dependency(text) for text in coordinates])
    needed = [one for one in needed if one.scope in ("compile", "runtime")]
    return [one.artifact for one in [*asked, *needed]]


def _download_all(artifacts: list[Any], progress: Progress) -> tuple[Path, ...]:
    total = len(artifacts)
    jars: list[Path] = []
    pool = ThreadPoolExecutor(_DOWNLOADS_AT_ONCE)
    try:
        for jar in pool.map(lambda artifact: Path(artifact.resolve()), artifacts):
            jars.append(jar)
            progress(ProgressStep("Downloading Apache Kafka", len(jars), total))
    finally:
        pool.shutdown(cancel_futures=True)  # after an interrupt, skip the remaining downloads
    return tuple(jars)


def _resolver(locked_sums: Mapping[str, str]) -> Any:
    from jgo.maven import PythonResolver

    class Resolver(PythonResolver):  # type: ignore[misc]
        """Writes files atomically and verifies them; jgo writes in place and only warns."""

        def download(self, artifact: Any) -> Path:
            sha256 = locked_sums.get(f"{artifact.groupId}:{artifact.artifactId}:{artifact.version}")
            for repository in artifact.context.remote_repos.values():
                path = artifact.component.path_prefix.as_posix()
                url = f"{repository}/{path}/{artifact.filename}"
                target = Path(artifact.cached_path)
                if _download(url, target, sha256):
                    return target
            raise RuntimeError(f"{artifact} was not found in any repository")

    return Resolver()


def _download(url: str, target: Path, sha256: str | None) -> bool:
    """Download ``url`` to ``target`` and verify it; return False if it does not exist (404).

    Raises:
        RuntimeError: the checksum differs.
    """
    from jgo.util import http

    response = http.get(url, timeout=_TIMEOUT_SECONDS)
    if response.status_code == 404:
        return False
    response.raise_for_status()
    if not (_intact(response.content, sha256) if sha256 else _agrees(url, response.content)):
        raise RuntimeError(f"{target.name} is damaged (checksum mismatch)")
    write_atomically(target, response.content)
    return True


def _intact(content: bytes, sha256: str) -> bool:
    return hashlib.sha256(content).hexdigest() == sha256


def _agrees(url: str, content: bytes) -> bool:
    """Whether the content matches the SHA-1 that the repository publishes, if any."""
    from jgo.util import http

    published = http.get(f"{url}.sha1", timeout=_TIMEOUT_SECONDS)
    if published.status_code != 200:
        return True
    digest = hashlib.sha1(content, usedforsecurity=False).hexdigest()
    return bool(published.text.split()[:1] == [digest])


def read_lock(coordinates: Sequence[str]) -> dict[str, str]:
    """Return ``group:artifact:version`` → SHA-256 of every jar that ``coordinates`` need.

    Empty if exactly this list of coordinates is not locked.
    """
    known = _LOCK_FILE.read_bytes() if _LOCK_FILE.exists() else b"{}"
    locks: dict[str, dict[str, str]] = json.loads(known)
    return locks.get(" ".join(coordinates), {})


def coordinates_of(jar: Path) -> str:
    """Return ``group:artifact:version`` of a jar in a repository directory."""
    *group, artifact, version, _ = path_in_repository(jar).parts
    return f"{'.'.join(group)}:{artifact}:{version}"


def write_lock() -> None:
    """Resolve the demo's artifacts again and write the lock file."""
    wanted = (SERVER, LOGGING)
    _LOCK_FILE.unlink(missing_ok=True)
    jars = classpath(*wanted, fresh=True).jars
    sums = {coordinates_of(jar): hashlib.sha256(jar.read_bytes()).hexdigest() for jar in jars}
    _LOCK_FILE.write_text(json.dumps({" ".join(wanted): sums}, indent=1) + "\n")


if __name__ == "__main__":
    write_lock()
