"""One archive with everything that a host without internet needs: wheels, and Kafka's jars.

The archive is a tar file with one directory::

    k2ktui-offline/wheels/*.whl               installed with pip
    k2ktui-offline/kafka/jars.json            coordinates, and each jar's path and SHA-256
    k2ktui-offline/kafka/repository/**/*.jar  copied to the user's cache
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from k2ktui.engine.strict_json import MalformedRecord, parse_object
from k2ktui.errors import ConfigError, Refused
from k2ktui.runtime.artifacts import Classpath, add_to_cache, path_in_repository
from k2ktui.text import safe_text

DIRECTORY = "k2ktui-offline"
_JARS = "kafka/jars.json"
_REPOSITORY = "kafka/repository"
# Distributions that the archive must hold; pip collects what they need beside them.
_REQUIRED = ("k2ktui", "pyspark")


@dataclass(frozen=True, slots=True)
class ArchiveContent:
    """What an archive holds: the number of wheels and of jars."""

    wheels: int
    jars: int


def write_archive(file: Path, wheels: Path, classpaths: Sequence[Classpath]) -> ArchiveContent:
    """Write an archive.

    Args:
        file: the tar file; must not exist.
        wheels: directory of the wheels that ``pip wheel`` wrote.
        classpaths: the jars to include.

    Raises:
        ConfigError: wheels are missing, or a file cannot be read or written.
        Refused: the file exists.
    """
    found = find_wheels(wheels)
    jars = {path_in_repository(jar): jar for each in classpaths for jar in each.jars}
    try:
        with tarfile.open(file, "x") as archive:
            for wheel in found:
                _add(archive, f"wheels/{wheel.name}", wheel)
            listed = json.dumps(_list(classpaths), indent=1).encode()
            entry = _entry(tarfile.TarInfo(f"{DIRECTORY}/{_JARS}"))
            entry.size = len(listed)
            archive.addfile(entry, io.BytesIO(listed))
            for path, jar in sorted(jars.items()):
                _add(archive, f"{_REPOSITORY}/{path}", jar)
    except FileExistsError:
        raise Refused(
            f"{safe_text(file)} already exists",
            unchanged="Nothing was written.",
            hint="Choose another file name.",
        ) from None
    except OSError as error:
        file.unlink(missing_ok=True)
        raise ConfigError(f"{safe_text(file)} cannot be written: {error.strerror}") from None
    except BaseException:
        file.unlink(missing_ok=True)
        raise
    return ArchiveContent(len(found), len(jars))


def find_wheels(directory: Path) -> list[Path]:
    """Return the wheels in a directory.

    Raises:
        ConfigError: the wheel of k2ktui or of PySpark is not among them.
    """
    found = sorted(directory.glob("*.whl"))
    names = {wheel.name.split("-")[0].lower() for wheel in found}
    missing = [name for name in _REQUIRED if name not in names]
    if missing:
        raise ConfigError(
            f"{safe_text(directory)} has no wheel of {' and '.join(missing)}",
            unchanged="Nothing was written.",
            hint=f"In a checkout, run: python -m pip wheel -w {safe_text(directory)} '.[spark]'",
        )
    return found


def read_archive(directory: Path) -> int:
    """Copy the jars of an extracted archive to the user's cache; return their number.

    Raises:
        ConfigError: the directory is not an extracted archive.
        Refused: a jar is missing or damaged.
    """
    try:
        listed = parse_object((directory / _JARS).read_bytes(), _JARS)
        classpaths = [_parse(each) for each in listed["classpaths"]]
    except (OSError, MalformedRecord, KeyError, TypeError, ValueError):
        raise ConfigError(
            f"{safe_text(directory)} is not an extracted archive of k2ktui: {_JARS} cannot be read",
            unchanged="No jar was added.",
            hint=f"Extract the archive with tar -xf, and name its directory {DIRECTORY}.",
        ) from None
    repository = directory / _REPOSITORY
    for _, sums in classpaths:
        for path, sha256 in sums.items():
            _verify(repository / path, sha256)
    for coordinates, sums in classpaths:
        add_to_cache(coordinates, {path: repository / path for path in sums})
    return len({path for _, sums in classpaths for path in sums})


def _add(archive: tarfile.TarFile, name: str, file: Path) -> None:
    entry = _entry(archive.gettarinfo(file, f"{DIRECTORY}/{name}"))
    with file.open("rb") as content:
        archive.addfile(entry, content)


def _entry(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return the entry readable for everyone, without the names of this host's users."""
    entry.mode = 0o644
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def _list(classpaths: Sequence[Classpath]) -> dict[str, object]:
    return {
        "classpaths": [
            {
                "coordinates": each.coordinates,
                "jars": {str(path_in_repository(jar)): _sha256(jar) for jar in each.jars},
            }
            for each in classpaths
        ]
    }


def _parse(listed: Mapping[str, object]) -> tuple[tuple[str, ...], dict[PurePosixPath, str]]:
    coordinates, jars = listed["coordinates"], listed["jars"]
    if not isinstance(coordinates, list) or not isinstance(jars, dict):
        raise ValueError
    sums = {PurePosixPath(str(path)): str(sha256) for path, sha256 in jars.items()}
    if any(path.is_absolute() or ".." in path.parts for path in sums):
        raise ValueError
    return tuple(map(str, coordinates)), sums


def _verify(jar: Path, sha256: str) -> None:
    try:
        whole = _sha256(jar) == sha256
    except OSError:
        whole = False
    if not whole:
        raise Refused(
            f"{safe_text(jar)} is missing or damaged (checksum mismatch)",
            unchanged="No jar was added.",
            hint="Copy and extract the archive again.",
        )


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
