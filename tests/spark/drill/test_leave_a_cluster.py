"""The page "Leave a cluster", word by word: its commands, typed at a terminal on real clusters."""

from __future__ import annotations

import os
import pty
import re
import shlex
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import START_S, TIMEOUT, create_topic
from tests.support.commands.cli import k2ktui_json
from tests.support.jobs.jobs import all_ended
from tests.support.pipelines.both_ways import count_records
from tests.support.records.numbered import PARTITIONS, Identity, consume_numbered, write_numbered

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[3] / "docs" / "leave-a-cluster.md"
_BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)
_PEOPLE = re.compile(r"# (stop|start) ([a-z, ]+?)(?: on the target)?$")
_ASKS = re.compile(r"Type (?:the pipeline's name, )?([^\s,]+),? to [^\n]*?: ?$")
# The page leaves the waits of a drill as they are, half a minute in which nobody writes.
_BRIEFLY = {"drill planned": ("--frozen", "2", "--watch", "10")}
# What says that something was found, and did what it is for.
_FINDINGS = ("drill rehearse", "drill planned", "check", "status", "drill list")


def lines() -> list[str]:
    """The lines of the page's commands, in their order."""
    return [line for block in _BLOCK.findall(PAGE.read_text()) for line in block.splitlines()]


def applications() -> list[str]:
    """The applications that the page stops."""
    stops = (match for line in lines() if (match := _PEOPLE.match(line)) and match[1] == "stop")
    return [name for match in stops for name in match[2].split(", ")]


def test_ten_applications_are_stopped_and_started_again_in_the_same_order() -> None:
    names = applications()
    assert len(names) == len(set(names)) == 10
    people = [match.groups() for line in lines() if (match := _PEOPLE.match(line))]
    assert people[::2] == [("stop", names) for _, names in people[1::2]]
    assert [what for what, _ in people] == ["stop", "start"] * (len(people) // 2)
    chosen = [re.findall("--topics '([^']+)'", line) for line in lines() if "planned" in line]
    assert "|".join(part for (part,) in chosen).split("|") == names


def type_command(words: list[str], directory: Path) -> tuple[int, str]:
    """Run a command at a terminal, type what it asks for, and return its code and words."""
    master, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", *words],
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=directory,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    os.close(terminal)
    assert process.stdout is not None
    said, answered = "", 0
    killer = threading.Timer(900, process.kill)
    killer.start()
    try:
        while chunk := os.read(process.stdout.fileno(), 4096):
            said += chunk.decode(errors="replace")
            if asks := _ASKS.search(said, answered):
                answered = len(said)
                os.write(master, f"{asks[1]}\n".encode())
        return process.wait(TIMEOUT), said
    finally:
        killer.cancel()
        os.close(master)


@dataclass
class Shop:
    """Ten applications: each writes to a topic of its name, and reads it with a group."""

    a: KafkaNode
    b: KafkaNode
    read: dict[str, list[Identity]] = field(default_factory=dict)

    def begin(self, names: list[str]) -> None:
        for name in names:
            create_topic(self.a, name, PARTITIONS)
            write_numbered(self.a, name, "a", range(40))
            self.read[name] = consume_numbered(self.a, f"{name}-app", name, 5)

    def stop(self, name: str) -> None:
        write_numbered(self.a, name, "a", range(40, 60))

    def start(self, name: str) -> None:
        write_numbered(self.b, name, "b", range(20))
        self.read[name] += consume_numbered(self.b, f"{name}-app", name)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    nodes = [KafkaNode(name, tmp_path / name).start(START_S) for name in ("old", "new")]
    with all_ended():
        old, new = nodes
        yield Shop(old, new)
    for node in nodes:
        node.close()


def write_file(shop: Shop, path: Path) -> None:
    names = applications()
    tree = {
        "name": "leave",
        "features": {"autoCreateControlTopics": "enabled"},
        "source": {"kafka": {"common": {"bootstrap.servers": shop.a.bootstrap}}},
        "target": {"kafka": {"common": {"bootstrap.servers": shop.b.bootstrap}}},
        "topicCreation": {"control": {"common": {"replication": 1}}},
        "groups": {"consumerGroups": "|".join(f"{name}-app" for name in names)},
        "spark": {"master": "local[2]"},
        "replication": [
            {"source": {"topic": names}},
            {"sink": {"topic": "source", "partition": "source"}},
        ],
    }
    path.write_text(yaml.safe_dump(tree))


@pytest.mark.timeout(3600)
def test_the_week_word_by_word(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = tmp_path / "leave.yaml"
    shop.begin(applications())
    write_file(shop, file)
    for line in lines():
        people = _PEOPLE.match(line)
        if people is not None:
            for name in people[2].split(", "):
                getattr(shop, people[1])(name)
            continue
        words = shlex.split(line, comments=True)
        for command, options in _BRIEFLY.items():
            words += options if line.startswith(f"k2ktui {command}") else ()
        began = time.monotonic()
        code, said = type_command(words, tmp_path)
        took = f"{line}: {code} after {time.monotonic() - began:.0f} s"
        print(took)
        may_find = any(line.startswith(f"k2ktui {command}") for command in _FINDINGS)
        assert code in ((0, 1) if may_find else (0,)), f"{took}\n{said}"
    drills = k2ktui_json("drill", "list", "-f", file)["drills"]
    assert {drill["status"] for drill in drills} == {"done"}
    for name, identities in shop.read.items():
        again = Counter(identities) - count_records(shop.b, name)
        assert set(count_records(shop.b, name)) <= set(identities), name
        # Reports begin anew by choice: what they had read of the first partition is read again.
        assert sum(again.values()) == (5 if name == "reports" else 0), name
