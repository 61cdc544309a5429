"""The pipelines of a directory, as ``k2ktui fleet`` shows them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from k2ktui.engine.severity import Severity
from k2ktui.fleet.feed import FleetFeed, read_fleet
from k2ktui.fleet.files import read_directory
from k2ktui.runtime.node import KafkaNode
from k2ktui.watch.model import View
from tests.support.clusters.kafka import TIMEOUT, Out, create_topic, eventually, produce
from tests.support.commands.verbs import k2ktui
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied

pytestmark = pytest.mark.slow


def settings(topic: str) -> dict[str, Any]:
    sink = {"topic": "source", "partition": "source"}
    return {"replication": [{"source": {"topic": topic}}, {"sink": sink}]}


def make_pipeline(directory: Path, source: KafkaNode, target: KafkaNode, records: int) -> Copied:
    topic = create_topic(source)
    produce(source, topic, [Out(b"%d" % n) for n in range(records)])
    copied = Copied(directory, source, target, settings(topic))
    copied.copy(topic)
    assert copied.file.exists()
    return copied


def rows_of(directory: Path) -> tuple[int, dict[str, Any]]:
    said = k2ktui("fleet", "-d", directory, "--json")
    assert said.out, said.err
    return said.code, {row["pipeline"]: row for row in said.json["pipelines"]}


def test_a_row_says_what_the_pipelines_own_commands_say(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    good = make_pipeline(tmp_path, source, target, 20)
    topic = good.settings["replication"][0]["source"]["topic"]  # type: ignore[index]
    group = good.group("g")
    commit_offsets(source, group, {(topic, 0): 5})
    produce(source, topic, [Out(b"late")] * 3)
    said = k2ktui("sync", "-f", good.file, "--once")
    assert said.code == 0, said.err
    code, rows = rows_of(tmp_path)
    row = rows[good.name]
    assert row["lag_records"] == row["rpo_records"] == 3
    assert row["run"] == "none" and row["rehearsal"] is None
    assert row["summary"]["groups"] == [{"severity": "ok", "status": "in step", "count": 1}]
    assert (row["summary"]["covered"], row["summary"]["retained"]) == (20, 20)
    assert row["coverage"] == pytest.approx(20 / 23)
    assert row["severity"] == "warn", row["problems"]
    assert code == 0
    table = k2ktui("fleet", "-d", tmp_path)
    assert table.code == 0 and good.name in table.out and "87.0 %" in table.out
    assert "never" in table.out and "no job is running" in table.out


def test_what_cannot_be_read_is_a_row_and_hides_no_other(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    good = make_pipeline(tmp_path, source, target, 4)
    lost = make_pipeline(tmp_path, source, target, 4)
    text = lost.file.read_text().replace(source.bootstrap, "127.0.0.1:1")
    lost.file.with_suffix(".yml").write_text(text)
    (tmp_path / f"{lost.name}.yaml").unlink()
    (tmp_path / "typo.yaml").write_text("name: typo\nsorce: {}\n")
    (tmp_path / "notes.txt").write_text("no pipeline")
    code, rows = rows_of(tmp_path)
    assert code == 1 and list(rows)[-1] == good.name, "the worst first"
    assert set(rows) == {good.name, lost.name, "typo"}
    assert "sorce" in rows["typo"]["problems"][0]["message"]
    assert rows["typo"]["run"] == "unknown" and rows["typo"]["lag_records"] is None
    [problem] = [row for row in rows[lost.name]["problems"] if row["severity"] == "bad"]
    assert problem["subject"] == "source cluster"
    assert rows[lost.name]["stale"] == ["source"] and rows[lost.name]["lag_records"] is None


def test_a_cluster_that_does_not_answer_delays_no_other_row(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    good = make_pipeline(tmp_path, source, target, 4)
    text = good.file.read_text()
    dead = "127.0.0.1:1"
    for number in range(12):
        name = f"dead-{number}"
        content = text.replace(source.bootstrap, dead).replace(
            f"name: {good.name}", f"name: {name}"
        )
        (tmp_path / f"a-{name}.yaml").write_text(content)
    began, seen = time.monotonic(), dict[str, float]()
    feed = FleetFeed(read_directory(tmp_path), 5.0)

    def note(view: View) -> None:
        for row in feed.rows:
            if row.taken_at is not None:
                seen.setdefault(row.pair.pipeline, time.monotonic() - began)

    feed.start(note)
    try:
        eventually(lambda: good.name in seen, "the good one was read")
        eventually(lambda: len(seen) == 13, "all were read")
    finally:
        feed.end()
    rows = {row.pair.pipeline: row for row in feed.rows}
    assert rows[good.name].severity < Severity.BAD
    assert all(rows[f"dead-{n}"].severity is Severity.BAD for n in range(12))
    assert seen[good.name] <= min(seen.values()) + 30.0


def test_many_pipelines_of_two_clusters_share_their_connections(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    for _ in range(10):
        make_pipeline(tmp_path, source, target, 2)
    rows = read_fleet(read_directory(tmp_path), 60.0)
    assert [row.lag for row in rows] == [0] * 10
    assert not [row for row in rows if row.severity is Severity.BAD]


@pytest.mark.parametrize("content", [None, {}])
def test_a_directory_without_pipelines_is_said(
    content: dict[str, str] | None, tmp_path: Path
) -> None:
    directory = tmp_path / "pipelines"
    if content is not None:
        directory.mkdir()
    said = k2ktui("fleet", "-d", directory)
    assert said.code == 2 and str(directory) in said.err


def make_site(directory: Path, source: KafkaNode, target: KafkaNode) -> Copied:
    """Make a pipeline, one whose source does not answer, and a file that is not valid."""
    good = make_pipeline(directory, source, target, 4)
    text = good.file.read_text().replace(source.bootstrap, "127.0.0.1:1")
    (directory / "lost.yaml").write_text(text.replace(f"name: {good.name}", "name: lost"))
    (directory / "typo.yaml").write_text("name: typo\nsorce: {}\n")
    return good


@contextmanager
def watching(directory: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "k2ktui", "watch", "-d", str(directory), *options]
    env = {**os.environ, "OTEL_EXPORTER_PROMETHEUS_PORT": "0"}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=env) as process:
        try:
            yield process
        finally:
            process.kill()


def end(process: subprocess.Popen[str]) -> str:
    """End a command as an operator does; return what it printed on standard output."""
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, err
    return out


def test_prometheus_gets_all_pipelines_of_a_directory(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    good = make_site(tmp_path, source, target)
    with watching(tmp_path, "--metrics", "--interval", "2") as process:
        assert process.stderr is not None
        [url] = re.findall(r"serving /metrics at (\S+)", process.stderr.readline())

        def value(metric: str, pipeline: str, more: str = "") -> float | None:
            with urllib.request.urlopen(f"{url}/metrics", timeout=TIMEOUT) as answer:
                text = answer.read().decode()
            found = re.findall(
                rf'^k2k_fleet_{metric}{{{more}file="[^"]*",pipeline="{pipeline}"\S*}} (\S+)',
                text,
                re.M,
            )
            return float(found[0]) if found else None

        assert value("file_invalid", "typo") == 1
        eventually(lambda: value("lag", good.name) == 0, "the good one is read")
        eventually(lambda: value("answers", "lost", 'cluster="source",') == 0, "the lost one, too")
        eventually(lambda: value("answers", "lost", 'cluster="target",') == 1, "its target")
        assert value("lag", "lost") is None and value("lag", "typo") is None
        topic = good.settings["replication"][0]["source"]["topic"]  # type: ignore[index]
        produce(source, topic, [Out(b"late")] * 3)
        eventually(lambda: value("lag", good.name) == 3, "it is read again")
        assert end(process) == "", "it prints nothing unless it is told to"


@pytest.mark.parametrize("option", ["--plain", "--json"])
def test_a_directory_is_watched_as_lines(
    option: str, source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    good = make_site(tmp_path, source, target)
    told: list[str] = []

    def rows() -> dict[str, Any]:
        return {row["pipeline"]: row for row in json.loads(told[-1])["pipelines"]}

    def is_read() -> bool:
        return option == "--plain" or rows()[good.name]["lag_records"] == 0

    with watching(tmp_path, option, "--interval", "2") as process:
        assert process.stdout is not None
        begins = "{" if option == "--json" else "Pipelines at "
        lines: list[str] = []
        while len(told) < 3 or not is_read():
            lines.append(process.stdout.readline())
            assert lines[-1], process.communicate()[1]
            told += [lines[-1]] if lines[-1].lstrip().startswith(begins) else []
        end(process)
    if option == "--json":
        assert set(rows()) == {good.name, "lost", "typo"}
    else:
        first = "".join(lines).split(told[1])[0]
        assert all(name in first for name in (good.name, "lost", "typo")), first
        assert len(set(told)) == 3, "a table for each time"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("-d", "DIR", "--record", "x"), "--record and -d cannot be combined"),
        (("-d", "DIR", "--mirrormaker", "x"), "--mirrormaker and -d cannot be combined"),
        (("-d", "DIR", "--once", "--metrics"), "--once and --metrics cannot be combined"),
        (("-d", "DIR", "-f", "x"), "give a pipeline with -f, a directory"),
        (("-f", "x", "--metrics"), "--metrics is for the pipelines of a directory"),
    ],
)
def test_options_that_do_not_belong_together_are_refused(
    options: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    ended = k2ktui("watch", *(str(tmp_path) if text == "DIR" else text for text in options))
    assert ended.code == 2 and said in ended.err


def test_a_directory_is_looked_at_once(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    make_pipeline(tmp_path, source, target, 4)
    assert k2ktui("watch", "-d", tmp_path, "--once").code == 0
    (tmp_path / "typo.yaml").write_text("name: typo\nsorce: {}\n")
    assert k2ktui("watch", "-d", tmp_path, "--once").code == 1
