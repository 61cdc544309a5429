"""``k2ktui translate --stdin --json`` as a process that another program asks for a long time."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import pytest

from k2ktui import ExitCode
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import START_S, TIMEOUT, Out, create_topic, eventually, produce
from tests.support.commands.cli import k2ktui
from tests.support.pipelines.copied import Copied

pytestmark = pytest.mark.slow

PRIOR = 7
PAGE = Path(__file__).parents[3] / "docs" / "python.md"


class Process:
    """The command as a child; its standard input and output stay open."""

    def __init__(self, file: Path) -> None:
        command = [
            sys.executable,
            "-m",
            "k2ktui",
            "translate",
            "-f",
            str(file),
            "--stdin",
            "--json",
        ]
        pipe = subprocess.PIPE
        self.child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
        self._lines: SimpleQueue[bytes] = SimpleQueue()
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            self._lines.put(line)

    def ask(self, question: object) -> dict[str, Any]:
        """Send a line, and wait for its answer; the input stays open."""
        raw = question if isinstance(question, bytes) else json.dumps(question).encode()
        self.send(raw)
        return self.answer()

    def send(self, raw: bytes) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write(raw + b"\n")
        self.child.stdin.flush()

    def answer(self) -> dict[str, Any]:
        line = self._lines.get(timeout=TIMEOUT)
        assert line.endswith(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self) -> tuple[int, str]:
        """Close the input; return the exit code and what was said on standard error."""
        assert self.child.stdin is not None and self.child.stderr is not None
        self.child.stdin.close()
        said = self.child.stderr.read().decode()
        code = self.child.wait(TIMEOUT)
        self._reader.join(TIMEOUT)
        with pytest.raises(Empty):
            self._lines.get_nowait()
        return code, said


@pytest.fixture
def topic(source: KafkaNode) -> str:
    name = create_topic(source)
    produce(source, name, [Out(b"%d" % n, b"k") for n in range(50)])
    return name


@pytest.fixture
def copied(source: KafkaNode, target: KafkaNode, topic: str, tmp_path: Path) -> Copied:
    copied = Copied(tmp_path, source, target, prior=PRIOR)
    copied.copy(topic)
    return copied


@pytest.fixture
def process(copied: Copied) -> Iterator[Process]:
    process = Process(copied.file)
    yield process
    process.child.kill()
    process.child.wait()


def at(topic: str, offset: int) -> dict[str, object]:
    return {"topic": topic, "partition": 0, "offset": offset}


def test_each_line_is_answered_and_new_copies_are_known(
    process: Process, copied: Copied, topic: str, source: KafkaNode
) -> None:
    expected = {
        **at(topic, 12),
        "target_topic": topic,
        "target_partition": 0,
        "translated_offset": 12 + PRIOR,
        "basis": "exact",
        "reread": 0,
        "skipped": 0,
        "reason": "",
    }
    assert process.ask(at(topic, 12)) == expected
    assert process.ask({"positions": [at(topic, 12)]}) == {"positions": [expected]}
    assert process.ask({"positions": []}) == {"positions": []}
    shell = k2ktui("translate", "-f", copied.file, "--json", f"{topic}:0:12")
    assert json.loads(shell.stdout)["positions"] == [expected]
    for turn in range(3):
        first = 50 + 10 * turn
        assert process.ask(at(topic, first))["basis"] == "end"
        produce(source, topic, [Out(b"later", b"k")] * 10)
        landed = copied.copy_on(topic, first)
        answer = process.ask(at(topic, first + 3))
        assert answer["translated_offset"] == landed[first + 3]
        assert answer["basis"] == "exact"
    assert process.end() == (0, "")


def test_an_error_is_a_line_and_not_the_end(process: Process, topic: str) -> None:
    for wrong, why in [
        (b"", "the line is not JSON"),
        (b"null", "not a JSON object"),
        (b'{"topic": "\xff"}', "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"topic": "' + b"t" * (2 << 20) + b'"}', "too large"),
        ({"topic": topic}, "no field partition"),
        ({**at(topic, 1), "group": "g"}, "a field beside offset, partition, topic: group"),
        ({"positions": [at(topic, 1)], "v": 1}, "a field beside positions: v"),
        ({"positions": [at(topic, 1), at(topic, 2)]}, "given twice"),
        (at(topic, -1), "a number outside 0"),
        ({**at(topic, 1), "offset": 1.0}, "a whole number"),
        (at("no topic", 1), "the topic name is not valid"),
    ]:
        answer = process.ask(wrong)
        assert why in answer["error"], answer
        assert answer.keys() == {"error", "hint", "exit_code"} and answer["exit_code"] == 2
    assert process.ask(at("other", 1))["reason"] == "other-0 is not replicated"
    assert process.ask(at(topic, 1))["basis"] == "exact"
    assert process.end() == (1, "")


def test_many_lines_at_once_are_answered_in_order(process: Process, topic: str) -> None:
    assert process.ask(at(topic, 1))["basis"] == "exact"
    count = 20_000  # one look at the clusters for each would take minutes
    process.send(b"\n".join(json.dumps(at(topic, n % 40)).encode() for n in range(count)))
    answers = [process.answer() for _ in range(count)]
    assert [answer["offset"] for answer in answers] == [n % 40 for n in range(count)]
    assert {answer["translated_offset"] - answer["offset"] for answer in answers} == {PRIOR}
    # Lines with an error, and without offsets, among others.
    process.send(b"\n".join([b"{", b'{"positions": []}', json.dumps(at(topic, 3)).encode()]))
    assert process.answer()["exit_code"] == 2
    assert process.answer() == {"positions": []}
    assert process.answer()["translated_offset"] == 3 + PRIOR
    assert process.end()[0] == 1


def test_it_outlives_an_outage_of_the_target(
    process: Process, topic: str, target: KafkaNode
) -> None:
    assert process.ask(at(topic, 1))["basis"] == "exact"
    target.kill()
    try:
        assert process.ask(at(topic, 1))["exit_code"] in (3, 4)
    finally:
        target.restart(START_S)

    def answered() -> dict[str, Any] | None:
        answer = process.ask(at(topic, 1))
        return None if "error" in answer else answer

    answer = eventually(answered, "the target is asked again")
    assert answer["translated_offset"] == 1 + PRIOR
    assert process.end()[0] == 1


def test_how_it_ends(process: Process, copied: Copied, topic: str) -> None:
    """With the reader of its output, by SIGINT, and at once where a file or an option is wrong."""
    assert process.ask(at(topic, 1))["basis"] == "exact"
    for options, why in [
        (["--stdin"], "Add --json"),
        (["--stdin", "--json", f"{topic}:0:1"], "give either"),
        (["--stdin", "--json", "--from-spark-checkpoint", "x"], "give either"),
        (["--stdin", "--json", "-f", "-"], "cannot read the pipeline's file"),
        (["--stdin", "--json", "-f", "nowhere.yaml"], "nowhere.yaml"),
    ]:
        done = k2ktui("translate", "-f", copied.file, *options, code=2)
        assert why in done.stderr and not done.stdout
    process.child.send_signal(signal.SIGINT)
    assert process.child.wait(TIMEOUT) == ExitCode.INTERRUPTED
    command = [sys.executable, "-m", "k2ktui", "translate", "-f", str(copied.file)]
    with subprocess.Popen(
        [*command, "--stdin", "--json"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stdin is not None and child.stdout is not None
        child.stdout.close()
        child.stdin.write(json.dumps(at(topic, 1)).encode() + b"\n")
        child.stdin.flush()
        assert child.wait(TIMEOUT) == ExitCode.READER_GONE


def test_the_page_shows_lines_as_they_are(process: Process, copied: Copied, topic: str) -> None:
    text = PAGE.read_text().partition("--stdin --json\n")[2].partition("```")[0]
    lines = text.splitlines()
    assert len(lines) == 6
    for question, answer in zip(lines[::2], lines[1::2], strict=True):
        asked = question.replace("orders", topic).replace("712", "12")
        shown = json.loads(answer.replace('"orders"', f'"{topic}"').replace("712", "12"))
        printed = process.ask(asked.encode())
        if "error" in printed:
            assert printed == json.loads(answer)
        else:
            assert json.dumps(printed) == json.dumps(shown).replace("719", "19")
