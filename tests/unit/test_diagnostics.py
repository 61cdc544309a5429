"""The log of --debug, -v and K2KTUI_LOG, and files of crashes: what they hold, and never hold."""

from __future__ import annotations

import errno
import logging
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from k2ktui import diagnostics, faults
from k2ktui.diagnostics import Diagnostics, Levels, SharedFile, read_levels
from k2ktui.errors import ConfigError, K2kError
from k2ktui.faults import fault
from k2ktui.secret_values import forget_secrets, redact, remember_secrets
from tests.support.clusters.kafka import TIMEOUT, eventually
from tests.support.commands.verbs import Said, k2ktui

SECRET = "hunter2-3cr3t"
PIPELINE = f"""
name: there
source: {{kafka: {{common: {{bootstrap.servers: "localhost:1", sasl.password: {SECRET}}}}}}}
target: {{kafka: {{common: {{bootstrap.servers: "localhost:2"}}}}}}
replication:
- source: {{topic: ".*"}}
- sink: {{topic: source, partition: source}}
"""


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv(diagnostics.VARIABLE, raising=False)
    return tmp_path / "state" / "k2ktui"


@pytest.fixture
def handler(state: Path) -> Iterator[Diagnostics]:
    """A log of this process, to the file, that takes everything of a logger of k2ktui."""
    handler = Diagnostics()
    handler.write_file(Levels(logging.DEBUG, logging.DEBUG))
    logger = logging.getLogger("k2ktui.lib")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler)
    logger.propagate = False
    yield handler
    logger.propagate = True
    logger.removeHandler(handler)
    handler.flush_lines(TIMEOUT)
    forget_secrets()


def logged(state: Path) -> str:
    return "".join(path.read_text() for path in (state / "log").glob("*.log"))


@pytest.mark.parametrize("place", ["before the command", "after it", "variable"])
def test_debug_fills_a_file_that_is_named(state: Path, place: str) -> None:
    if place == "before the command":
        said = k2ktui("--debug", "jobs", "list")
    elif place == "after it":
        said = k2ktui("jobs", "list", "--debug")
    else:
        said = k2ktui("jobs", "list", env={diagnostics.VARIABLE: "debug"})
    (path,) = (state / "log").glob("*.log")
    assert said.code == 0
    assert (str(path) in said.err) == (place != "variable"), "a service's log is not told each time"
    assert " jobs list" in path.read_text() and "exit code 0" in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_without_an_option_there_is_no_file(state: Path) -> None:
    assert k2ktui("jobs", "list").err == ""
    assert not (state / "log").exists()


@pytest.mark.parametrize("option", ["-v", "-vv", "--verbose"])
def test_verbose_prints_on_stderr_only(state: Path, tmp_path: Path, option: str) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE)
    quiet, said = (k2ktui("config", "show", "-f", file, *options) for options in ([], [option]))
    assert said.out == quiet.out and "exit code 0" not in quiet.err
    assert re.search(r"^\d\d:\d\d:\d\d INFO cli.main: exit code 0$", said.err, re.M)
    assert not (state / "log").exists()


def test_an_error_names_the_file_and_its_cause_is_there(state: Path, tmp_path: Path) -> None:
    said = k2ktui("--debug", "config", "show", "-f", tmp_path / "none.yaml")
    (path,) = (state / "log").glob("*.log")
    assert said.code == 2 and str(path) in said.err and "Traceback" not in said.err
    assert "none.yaml: cannot be read" in path.read_text()


@pytest.mark.parametrize("text", ["loud", "kafka=loud", "=debug"])
def test_a_variable_that_says_nothing_is_refused(state: Path, text: str) -> None:
    said = k2ktui("jobs", "list", env={diagnostics.VARIABLE: text})
    assert said.code == 2 and "K2KTUI_LOG: expected a level" in said.err


def test_levels_of_single_loggers() -> None:
    levels = read_levels("info, kafka=debug,k2ktui.sync=error")
    assert levels is not None
    names = {"k2ktui.runs": 20, "kafka.conn": 10, "kafkaesque": 20, "k2ktui.sync.loop.poll": 40}
    assert {name: levels.of(name) for name in names} == names
    assert read_levels("") is None


def test_clients_that_talk_much_are_quiet_until_they_are_asked() -> None:
    quiet, asked = read_levels("debug"), read_levels("debug,kafka=info")
    assert quiet is not None and asked is not None
    assert [quiet.of("kafka.cluster"), quiet.of("py4j"), quiet.of("librdkafka")] == [30, 30, 20]
    assert asked.of("kafka.cluster") == 20


def test_lines_of_a_library_that_differ_in_numbers_are_counted(
    handler: Diagnostics, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("k2ktui.diagnostics.time.monotonic", lambda: now)

    def say(name: str, text: str) -> None:
        record = {"name": name, "levelno": logging.ERROR, "levelname": "ERROR", "msg": text}
        handler.handle(logging.makeLogRecord(record))

    for port in range(50):
        say("librdkafka", f"127.0.0.1:{port}: Connection refused")
        say("k2ktui.lib", "again")
    say("librdkafka", "SSL handshake failed")
    now += 10.0
    say("librdkafka", "127.0.0.1:9: Connection refused")
    handler.flush_lines(TIMEOUT)
    lines = [line.partition("librdkafka: ")[2] for line in logged(state).splitlines()]
    assert [line for line in lines if line] == [
        "127.0.0.1:0: Connection refused",
        "SSL handshake failed",
        "127.0.0.1:9: Connection refused (49 similar lines left out before)",
    ]
    assert logged(state).count("k2ktui.lib: again") == 50


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for home in (tmp_path / "file", Path("/proc/self")):
        said = k2ktui("--debug", "config", "schema", env={"XDG_STATE_HOME": str(home)})
        assert said.code == 0 and said.out.startswith("{")
    full = SharedFile(Path("/dev/full"))
    full.write("a line")


def _cause_of_a_library() -> None:
    login = {"sasl.password": SECRET, "other": 1}
    try:
        raise RuntimeError(f"cannot log in with {login}")
    except RuntimeError as error:
        raise K2kError("no login") from error


def test_no_secret_is_in_the_file(handler: Diagnostics, state: Path) -> None:
    """Of settings that k2ktui has read, and of others, by their names."""
    log = logging.getLogger("k2ktui.lib.client")
    try:
        _cause_of_a_library()
    except K2kError as error:
        log.exception("failed: %s", error)
    log.info("headers: %s", {"Authorization": f"Bearer {SECRET}", "Accept": "*/*"})
    log.info("Authorization: Basic YWRtaW46aHVudGVyMi0zY3IzdA==")
    log.info("GET https://ann:%s@host:8081/subjects?api_key=%s&x=1", SECRET, SECRET)
    log.info("org.Login required username=ann password=%s;", f'"{SECRET}"')
    log.info('{"json": "{\\"client.secret\\": \\"%s\\"}"}', SECRET)
    log.debug("SaslAuthenticateRequest(auth_bytes=%r)", f"\0ann\0{SECRET}'\"".encode())
    log.debug("[type=int, input_value='%s', input_type=str]", SECRET)
    log.info("-----BEGIN PRIVATE KEY-----\n%s\n-----END PRIVATE KEY-----", SECRET)
    remember_secrets([("ssl.key.password", "unnamed-pass")])
    log.info("unnamed-pass was in no setting of this text")
    handler.flush_lines(TIMEOUT)
    text = logged(state)
    assert "no login" in text and "_cause_of_a_library" in text and "which led to:" in text
    assert "'other': 1" in text and "subjects" in text and "username=ann" in text
    assert SECRET not in text and "YWRtaW46" not in text and "unnamed-pass" not in text
    assert SECRET not in "\n".join(handler.recent())


def test_words_that_are_no_secret_stay() -> None:
    for text in (
        "sasl.mechanism=PLAIN",
        "topic orders: 3 partitions",
        "the password of the store is wrong",
        "key=b'k1' partition=3",
        "ssl.truststore.type=PKCS12",
    ):
        assert redact(text) == text


def test_a_file_has_a_bound_and_whole_lines_of_all_processes(tmp_path: Path) -> None:
    path, lines, processes = tmp_path / "log" / "host.log", 400, 4
    program = (
        "import sys; from pathlib import Path; from k2ktui.diagnostics import SharedFile\n"
        "file = SharedFile(Path(sys.argv[1]), 20_000, 3)\n"
        "for n in range(int(sys.argv[3])): file.write(f'{sys.argv[2]} {n:05} ' + 'x' * 88)\n"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", program, str(path), str(n), str(lines)])
        for n in range(processes)
    ]
    assert [process.wait(TIMEOUT) for process in started] == [0] * processes
    files = [path, *path.parent.glob("host.log.[0-9]")]
    assert len(files) == 3 and all(file.stat().st_size < 30_000 for file in files)
    text = "".join(file.read_text() for file in files)
    assert all(re.fullmatch(r"[0-3] \d{5} x{88}", line) for line in text.splitlines())
    last = re.findall(rf"^(\d) {lines - 1:05} ", path.read_text(), re.M)
    assert last, "the newest lines are in the file with the name"


def test_a_child_of_a_fork_writes_its_own_lines(handler: Diagnostics, state: Path) -> None:
    log = logging.getLogger("k2ktui.lib")
    log.info("before the fork")
    child = os.fork()
    if child == 0:
        log.info("in the child")
        handler.flush_lines(TIMEOUT)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    log.info("after the fork")
    handler.flush_lines(TIMEOUT)
    assert eventually(lambda: logged(state).count("fork"), "both lines") == 2
    assert f" {child} INFO k2ktui.lib: in the child" in logged(state)


def test_what_is_too_much_for_the_disk_is_counted(
    handler: Diagnostics, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnostics, "_MOST_WAITING", 0)
    logging.getLogger("k2ktui.lib").info("lost")
    monkeypatch.undo()
    logging.getLogger("k2ktui.lib").info("kept")
    handler.flush_lines(TIMEOUT)
    files = [*Path(handler.file or "").parent.glob("*.log")]
    assert "1 line lost" in files[0].read_text() and "kept" in files[0].read_text()


def _crash() -> None:
    local = SECRET
    try:
        raise KeyError(local)
    except KeyError as error:
        raise ValueError(f"invalid literal: {local}") from error


def crash_report(state: Path) -> str:
    try:
        _crash()
    except ValueError as error:
        hint = fault(error).hint
        assert fault(error).hint == hint, "one exception has one file"
    (path,) = state.glob("crash-*.txt")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and str(path) in hint
    return path.read_text()


def test_a_crash_keeps_its_trace_and_causes(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["k2ktui", "start", "--x", f"https://ann:{SECRET}@host"])
    diagnostics.set_up()
    logging.getLogger("k2ktui.runs").info("a headline")
    text = crash_report(state)
    assert text.startswith("k2ktui 0.") and "Command: k2ktui start --x https://<redacted>" in text
    assert "in _crash" in text and "KeyError\nwhich led to:" in text
    assert "\nValueError\n" in text and "a headline" in text
    assert SECRET not in text


def test_a_crash_has_no_text_of_others_errors(state: Path) -> None:
    """Not of an error in a line of the log, nor what a library says of it; the system's number."""
    diagnostics.set_up()
    unknown = ValueError(SECRET)
    logging.getLogger("k2ktui.runs").warning("slot %d: %s", 3, unknown)
    logging.getLogger("k2ktui.runs").warning("%(why)s", {"why": unknown})
    logging.getLogger("k2ktui.runs").warning("again: %s", ConfigError("ours"))
    logging.getLogger("asyncio").error("future: <exception=%r>", unknown, exc_info=unknown)
    told = fault(FileNotFoundError(errno.ENOENT, SECRET, SECRET))
    (path,) = state.glob("crash-*.txt")
    text = path.read_text()
    assert "slot 3: ValueError" in text and "again: ours" in text
    assert "FileNotFoundError: No such file or directory" in text
    assert SECRET not in text + str(told)


def test_ten_crashes_are_kept(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(13):
        fault(type(f"Fault{number}", (RuntimeError,), {})())
    texts = [path.read_text() for path in faults.crash_files()]
    assert [re.findall(r"^Fault(\d+)", text, re.M)[0] for text in texts] == [
        str(number) for number in reversed(range(3, 13))
    ]


_DYING_THREAD = """
import sys, threading
from k2ktui.cli import main as command_line
from k2ktui.jobs import local_jobs

# Python 3.13 prints lines of "-c" in tracebacks: the secret is no literal.
def fail(): raise KeyError("-".join(["hunter2", "3cr3t"]))
def list_jobs():
    thread = threading.Thread(target=fail); thread.start(); thread.join()
    return []
local_jobs.list_jobs = list_jobs
command_line.main()
"""


def test_a_bug_in_a_thread_is_reported_without_a_traceback(state: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _DYING_THREAD, "jobs", "list"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    said = Said(done.returncode, done.stdout, done.stderr)
    (path,) = state.glob("crash-*.txt")
    assert said.code == 0 and str(path) in said.err and "Traceback" not in said.err
    assert "in fail" in path.read_text() and SECRET not in path.read_text()


def test_a_message_that_cannot_be_formatted_breaks_nothing(handler: Diagnostics) -> None:
    handler.handle(
        logging.makeLogRecord(
            {"name": "k2ktui.lib", "levelno": 20, "msg": "%d", "args": ("no number",)}
        )
    )
    assert "cannot be formatted" in handler.recent()[-1]


def test_names_cannot_control_a_terminal(handler: Diagnostics, state: Path) -> None:
    logging.getLogger("k2ktui.lib").info("topic %s", "a\x1b[2Jb\rc")
    handler.flush_lines(TIMEOUT)
    assert "topic a\\x1b[2Jb" in logged(state) and "\x1b" not in logged(state)


def test_unknown_levels_raise() -> None:
    with pytest.raises(ConfigError):
        read_levels("debug,loud")
