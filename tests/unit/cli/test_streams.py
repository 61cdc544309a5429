"""Files from standard input and pipes; output that is closed, full, or that nobody reads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from k2ktui.errors import ExitCode
from k2ktui.mm2.flow_files import read_flow
from tests.support.clusters.kafka import TIMEOUT

PIPELINE = """
name: from-a-pipe
source: {kafka: {common: {bootstrap.servers: "localhost:1"}}}
target: {kafka: {common: {bootstrap.servers: "localhost:1"}}}
replication:
- source: {topic: ".*"}
- sink: {topic: source, partition: source}
"""
PROPERTIES = """
# mm2
clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
"""
CONNECTOR = json.dumps(
    {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": "a:9092",
        "target.cluster.bootstrap.servers": "b:9092",
    },
    indent="\t",
)
RESOURCE = """
kind: KafkaConnector
metadata: {name: mirror, labels: {strimzi.io/cluster: workers}}
spec:
  class: org.apache.kafka.connect.mirror.MirrorSourceConnector
  config:
    source.cluster.alias: A
    target.cluster.alias: B
    source.cluster.bootstrap.servers: a:9092
    target.cluster.bootstrap.servers: b:9092
"""
# A shell gives the command what it names; K2KTUI is the program.
PROGRAM = f"{sys.executable} -m k2ktui"


def shell(script: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run a script of bash; ``$K`` is the program."""
    return subprocess.run(
        ["bash", "-c", script],
        input=given,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
        env={**os.environ, "K": PROGRAM},
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.yaml"
    path.write_text(PIPELINE)
    return path


@pytest.mark.parametrize("form", ["-f -", "-f <(cat)", "-f /dev/stdin"])
def test_a_pipeline_from_a_pipe(form: str) -> None:
    """Read once, although several parts of a command ask for it."""
    done = shell(f"$K config show {form}", PIPELINE)
    assert done.returncode == 0 and "name: from-a-pipe\n" in done.stdout, done.stderr


def test_an_error_in_it_has_its_line() -> None:
    done = shell("$K config validate -f -", PIPELINE + "nmae: x\n")
    assert done.returncode == ExitCode.USAGE and "-:8: nmae" in done.stderr


@pytest.mark.parametrize("given", [PROPERTIES, CONNECTOR, RESOURCE])
@pytest.mark.parametrize("form", ["mm2 import -", "mm2 import -f -", "mm2 import <(cat)"])
def test_the_content_tells_the_kind_of_a_file(form: str, given: str) -> None:
    done = shell(f"$K {form}", given)
    assert done.returncode == 0 and "name: A-to-B" in done.stdout, done.stderr


@pytest.mark.parametrize("given", [PROPERTIES, CONNECTOR, RESOURCE])
def test_a_flow_is_no_pipeline(given: str, tmp_path: Path) -> None:
    """Whatever its name is, it is read as MirrorMaker 2's."""
    done = shell("$K config show -f -", given)
    assert done.returncode == ExitCode.USAGE and "MirrorMaker 2" in done.stderr
    path = tmp_path / "mm2"
    path.write_text(given)
    for name in (path, f"{path}#A->B"):
        assert str(read_flow([str(name)])[0].config.name) == "A->B"


@pytest.mark.parametrize("command", ["jobs start -f -", "jobs log -f <(cat)", "drill planned -f -"])
def test_what_another_process_reads_later_is_a_file(command: str) -> None:
    done = shell(f"$K {command}", PIPELINE)
    assert done.returncode == ExitCode.USAGE and "can be read again" in done.stderr


COMMANDS = ("config show -f {file}", "config schema", "check --help", "jobs list")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_reader_that_ends_is_no_finding(command: str, file: Path, tmp_path: Path) -> None:
    """Neither of tables nor of text."""
    called = command.format(file=file)
    state = f"XDG_STATE_HOME={tmp_path}"
    # The reader has ended before the command writes.
    done = shell(f"exec 3> >(true); wait $!; {state} $K {called} >&3 2>&1; exit $?")
    assert (done.returncode, done.stdout, done.stderr) == (ExitCode.READER_GONE, "", "")


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&- <&-"])
@pytest.mark.parametrize("command", COMMANDS[:1] + COMMANDS[-1:])
def test_a_closed_stream_is_no_error(command: str, closed: str, file: Path, tmp_path: Path) -> None:
    called = f"XDG_STATE_HOME={tmp_path} $K {command.format(file=file)}"
    done, usual = shell(f"{called} {closed}"), shell(called)
    assert done.returncode == usual.returncode, done.stderr
    assert "internal error" not in done.stderr
    assert done.stdout in ("", usual.stdout) and done.stderr in ("", usual.stderr)


def test_a_closed_output_is_given_to_nothing_else(file: Path) -> None:
    """A connection would otherwise get its number, and all that is printed."""
    code = (
        "import os, sys; from k2ktui.cli.terminal.streams import open_streams; open_streams();"
        "print('x', flush=True);"
        "sys.exit([os.readlink(f'/proc/self/fd/{n}') for n in (0, 1)] != ['/dev/null'] * 2)"
    )
    done = shell(f'{sys.executable} -c "{code}" <&- >&-')
    assert (done.returncode, done.stderr) == (0, "")


THREAD = """
import threading
from k2ktui.cli import main
main.watch_output()
threading.excepthook = main._report_thread
def write():
    while True:
        print("x" * 9999, flush=True)
thread = threading.Thread(target=write)
thread.start()
thread.join()
print("ended", file=main.sys.stderr)
"""


def test_a_thread_whose_output_nobody_reads_is_no_crash(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(THREAD)
    said = shell(f"XDG_STATE_HOME={tmp_path} {sys.executable} {program} | head -c 1")
    assert said.stderr.startswith("ended\n"), said.stderr
    assert list((tmp_path / "k2ktui").glob("crash-*")) == []


@pytest.mark.parametrize("command", ["config schema", "completion bash", "--help"])
def test_a_full_disk_is_named(command: str) -> None:
    done = shell(f"$K {command} > /dev/full")
    assert done.returncode == ExitCode.USAGE
    assert done.stderr.splitlines() == [
        "k2ktui: standard output cannot be written: No space left on device",
        "  Fix: Free space where it leads to, or redirect it elsewhere.",
    ]


@pytest.mark.parametrize(
    "command", ["config show -f none.yaml", "config schema > /dev/full", "nothing"]
)
def test_the_exit_code_is_that_of_the_error(command: str) -> None:
    """Also if nobody can be told: Python would end with 120."""
    assert shell(f"$K {command} 2> /dev/full").returncode == ExitCode.USAGE
