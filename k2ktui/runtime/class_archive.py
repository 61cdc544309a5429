"""Archives of loaded classes (class data sharing, JEP 350), with which Java starts faster.

Archives are keyed by JVM and class path. Java itself ignores an archive
that does not fit, but can crash on a truncated one. Therefore an archive's name holds its size,
which is compared before use, and Java verifies the checksums.

Archives are in the user's cache, private, and can be deleted at any time. They hold classes only,
no values of the run that they were made by. ``K2KTUI_CLASS_ARCHIVES=off`` neither uses nor makes
them, ``use`` makes none.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from k2ktui.errors import K2kError, Refused, TimedOut
from k2ktui.private_files import FILE_MODE
from k2ktui.runtime import child_process
from k2ktui.runtime.java import Java
from k2ktui.runtime.paths import cache_dir, locked

VARIABLE = "K2KTUI_CLASS_ARCHIVES"
OFF, USE, MAKE = "off", "use", "make"

_DIRECTORY = "classes"
_UNFINISHED = ".new-"
_FREE_BYTES = 1 << 30  # on the cache's file system, for an archive to be made
_TOTAL_BYTES = 1 << 30  # of all archives
_UNUSED_SECONDS = 30 * 86400.0
_RETRY_SECONDS = 86400.0  # after a failure
_MAKE_SECONDS = 600.0
_END_SECONDS = 10.0
_JAVA_SECONDS = 120.0
_NICE = 19
_BACKGROUND = "--background"
# Spark splits its Java options at spaces, and Java splits the names of archives at colons.
_PLAIN_PATH = re.compile(r"[\w/.,@+-]+")
# The maker needs none of the run's variables, which may hold secrets or change the class path.
_KEPT_VARIABLES = (
    *("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "PYTHONPATH", "SPARK_HOME", "TMPDIR"),
    *("HADOOP_USER_NAME", "JAVA_HOME", "LOGNAME", "USER", "XDG_CACHE_HOME", "XDG_STATE_HOME"),
)
_AOT_LOG_VERSION = 24

Run = Callable[[tuple[str, ...], Path], None]

_makers: dict[str, child_process.ChildProcess] = {}
_starting = threading.Lock()


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive of one kind of Java process; it may not exist yet.

    Attributes:
        purpose: what the process is, for example ``kafka-broker``.
        java: the Java that runs it.
        jars: its class path.
    """

    purpose: str
    java: Java
    jars: tuple[Path, ...]

    def options(self) -> tuple[str, ...]:
        """Return the Java options that use the archive; none if there is no complete one."""
        if archive_mode() == OFF:
            return ()
        try:
            directory = cache_dir(_DIRECTORY)
            archives = self._find(directory)
        except OSError:  # a cache or a jar that cannot be read: start without
            return ()
        for path in archives:
            with contextlib.suppress(OSError):
                os.utime(path)  # the least recently used are removed
        return _use_options(self.java, archives[0]) if archives else ()

    def is_missing(self) -> bool:
        """Return whether there is no archive, and making it has not failed within a day."""
        try:
            directory = cache_dir(_DIRECTORY)
            if not _PLAIN_PATH.fullmatch(str(directory)) or _has_failed(self._failure(directory)):
                return False
            return not self._find(directory)
        except OSError:
            return False

    def make(self, run: Run) -> bool:
        """Make the archive if it is missing, one maker at a time.

        Args:
            run: runs such a process with additional Java options until it has ended in order;
                Java writes the archive at its exit. Its second argument is a directory for the
                process, which is removed.

        Returns:
            whether the archive exists now.

        Raises:
            OSError: the cache cannot be written.
        """
        directory = cache_dir(_DIRECTORY)
        with locked(directory / ".lock"):
            for left in directory.glob(f"{_UNFINISHED}*"):  # of makers that were killed
                shutil.rmtree(left, ignore_errors=True)
            if self.is_missing() and shutil.disk_usage(directory).free >= _FREE_BYTES:
                self._make(directory, run)
                _remove_old(directory)
            return bool(self._find(directory))

    def _make(self, directory: Path, run: Run) -> None:
        stem = self._stem()
        with tempfile.TemporaryDirectory(dir=directory, prefix=_UNFINISHED) as unfinished:
            written = Path(unfinished, "archive.jsa")
            try:
                base = self._base_options(directory, written)
                options = (*base, f"-XX:ArchiveClassesAtExit={written}")
                run((*options, *_quiet_options(self.java)), Path(unfinished))
                _run_java(self.java, *_use_options(self.java, written), "--version")
                _put(written, directory, stem)
            except Exception:
                self._failure(directory).touch(FILE_MODE)
                raise

    def _base_options(self, directory: Path, written: Path) -> tuple[str, ...]:
        """Make the archive of Java's own classes if it is installed without one."""
        if _has_default_archive(self.java):
            return ()
        base = _find(directory, self._base_stem())
        if base is None:
            _run_java(self.java, "-Xshare:dump", f"-XX:SharedArchiveFile={written}")
            base = _put(written, directory, self._base_stem())
        return (f"-XX:SharedArchiveFile={base}",)

    def _find(self, directory: Path) -> tuple[Path, ...]:
        """Return the archive, and that of Java's own classes if it needs one; empty if none."""
        stems = [self._stem()]
        if not _has_default_archive(self.java):
            stems.append(self._base_stem())
        archives = [_find(directory, stem) for stem in stems]
        return tuple(path for path in archives if path) if all(archives) else ()

    def _stem(self) -> str:
        return f"{self.purpose}-{_digest([*_java_files(self.java), *self.jars])}"

    def _base_stem(self) -> str:
        return f"java-{_digest(_java_files(self.java))}"

    def _failure(self, directory: Path) -> Path:
        return directory / f"{self._stem()}.failed"


def archive_mode() -> str:
    """Return ``off``, ``use`` or ``make``, from the environment.

    Raises:
        Refused: the variable has another value.
    """
    mode = os.environ.get(VARIABLE) or MAKE
    if mode not in (OFF, USE, MAKE):
        raise Refused(
            f"The environment variable {VARIABLE} has a value that is not off, use or make.",
            unchanged="Nothing was started.",
            hint=f"Unset {VARIABLE}, or set it to off, use or make.",
        )
    return mode


def make_in_background(archive: ClassArchive, module: str) -> None:
    """Make a missing archive beside this process, once, at the lowest priority.

    The maker ends with this process at the latest; the next start tries again.

    Args:
        archive: the archive.
        module: the module to run, which makes the archive.
    """
    if archive_mode() != MAKE or not archive.is_missing():
        return
    with _starting:
        if module in _makers:
            return
        variables = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        try:
            log = cache_dir(_DIRECTORY) / f"{archive.purpose}.log"
            log.unlink(missing_ok=True)
            maker = child_process.spawn(
                [sys.executable, "-P", "-m", module, _BACKGROUND],
                log_path=log,
                env=variables,
                cwd=log.parent,
            )
        except (OSError, K2kError):  # without an archive, starts only take longer
            return
        _makers[module] = maker
    threading.Thread(target=_await_maker, args=[maker], name="class-archive", daemon=True).start()


def be_maker(arguments: list[str]) -> None:
    """Make this process one that makes an archive: without one, in the background at nice 19."""
    os.environ[VARIABLE] = OFF
    if _BACKGROUND in arguments:
        os.nice(_NICE)


def _await_maker(maker: child_process.ChildProcess) -> None:
    try:
        maker.wait(_MAKE_SECONDS)
    except TimedOut:
        maker.release()
        with contextlib.suppress(TimedOut):
            maker.wait(_END_SECONDS)


def _use_options(java: Java, archive: Path) -> tuple[str, ...]:
    return (f"-XX:SharedArchiveFile={archive}", "-XX:+VerifySharedSpaces", *_quiet_options(java))


def _quiet_options(java: Java) -> tuple[str, ...]:
    # Without these, Java prints a warning to standard output if it ignores an archive.
    aot = ("-Xlog:aot*=off",) if java.version >= _AOT_LOG_VERSION else ()
    return ("-Xlog:cds*=off", *aot)


def _has_default_archive(java: Java) -> bool:
    return (java.home / "lib" / "server" / "classes.jsa").is_file()


def _java_files(java: Java) -> list[Path]:
    """Return the files that tell one Java from another.

    They are resolved: a home that ``spark_java_home`` has made links to the files of the real one.
    """
    server = (java.home / "lib" / "server").resolve()
    default = server / "classes.jsa"
    return [server / "libjvm.so", *([default] if default.is_file() else [])]


def _digest(files: list[Path]) -> str:
    """Return a digest of the files' paths, sizes and times, all of which Java compares."""
    digest = hashlib.sha256()
    for path in files:
        status = path.stat()
        digest.update(
            f"{status.st_size} {status.st_mtime_ns} ".encode() + os.fsencode(path) + b"\n"
        )
    return digest.hexdigest()[:16]


def _find(directory: Path, stem: str) -> Path | None:
    """Return the archive that has the size in its name."""
    return next((path for path in _candidates(directory, stem) if _is_complete(path)), None)


def _candidates(directory: Path, stem: str) -> Iterator[Path]:
    return directory.glob(f"{stem}-*.jsa")


def _is_complete(path: Path) -> bool:
    return path.is_file() and path.stem.rpartition("-")[2] == str(path.stat().st_size)


def _put(written: Path, directory: Path, stem: str) -> Path:
    written.chmod(FILE_MODE)
    for damaged in _candidates(directory, stem):
        damaged.unlink()
    return written.rename(directory / f"{stem}-{written.stat().st_size}.jsa")


def _has_failed(failure: Path) -> bool:
    try:
        return time.time() - failure.stat().st_mtime < _RETRY_SECONDS
    except FileNotFoundError:
        return False


def _remove_old(directory: Path) -> None:
    """Remove archives that no start has used for 30 days, and the oldest above 1 GiB in all."""
    total = 0
    dated = [(path.stat().st_mtime, path.stat().st_size, path) for path in directory.glob("*.jsa")]
    for used, size, path in sorted(dated, reverse=True):
        total += size
        if total > _TOTAL_BYTES or time.time() - used > _UNUSED_SECONDS:
            path.unlink()
    for note in directory.glob("*.failed"):
        if not _has_failed(note):
            note.unlink()


def _run_java(java: Java, *options: str) -> None:
    """Run Java; the exit code must be 0.

    Raises:
        Refused: it failed.
    """
    command = [str(java.executable), "-XX:+UseSerialGC", *options]
    none = subprocess.DEVNULL
    try:
        subprocess.run(command, stdin=none, stdout=none, timeout=_JAVA_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise Refused(f"Java cannot make an archive of classes: {error}") from error
