"""What the user of a running demo does to its applications and its source."""

from __future__ import annotations

import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from k2ktui.demo import running
from k2ktui.demo.applications import Applications
from k2ktui.demo.pipeline import write_yaml
from k2ktui.demo.running import (
    ACTION_TEXTS,
    DemoAction,
    DemoActions,
    answering,
    demo_place,
    request,
    steps_beside,
)
from k2ktui.errors import K2kError, Refused, TimedOut
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import TIMEOUT, create_topic, eventually, produce
from tests.support.commands.verbs import k2ktui


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory of a running demo, which is this process."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    home = demo_place().directory
    write_yaml(home / "data" / "pipeline.yaml", "source:1", "target:1")
    with running.announce(home / "data" / "pipeline.yaml"):
        yield home


def test_a_command_acts_on_the_running_demo(home: Path) -> None:
    asked: list[DemoAction] = []

    def perform(action: DemoAction) -> str:
        asked.append(action)
        return "The producers are stopped."

    with answering(perform):
        assert stat.S_IMODE((home / "requests").stat().st_mode) == 0o700
        said = k2ktui("demo", "--do", "stop-producers")
    assert (said.code, said.out) == (0, "The producers are stopped.\n"), said
    assert asked == [DemoAction.STOP_PRODUCERS]
    assert not (home / "requests").exists()


def test_an_action_that_fails_says_why_and_the_next_one_is_performed(home: Path) -> None:
    def perform(action: DemoAction) -> str:
        if action is DemoAction.START_SOURCE:
            raise Refused("The source cluster ended while starting.", hint="See its log.")
        if action is DemoAction.KILL_SOURCE:
            raise AssertionError("a bug")
        return action

    with answering(perform):
        with pytest.raises(K2kError, match="ended while starting") as failed:
            request(DemoAction.START_SOURCE)
        assert failed.value.hint == "See its log."
        with pytest.raises(K2kError, match="internal error in k2ktui"):
            request(DemoAction.KILL_SOURCE)
        assert request(DemoAction.SHOW) == "show"


def test_without_a_demo_that_takes_requests_nothing_happens(home: Path, tmp_path: Path) -> None:
    said = k2ktui("demo", "--do", "kill-source")
    assert said.code == 5
    assert "does not take requests now" in said.err and "Nothing was changed" in said.err
    (home / "job.json").unlink()
    assert "No demo is running." in k2ktui("demo", "--do", "show").err


def test_a_request_that_nobody_waits_for_is_withdrawn(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[DemoAction] = []
    goes_on = threading.Event()

    def perform(action: DemoAction) -> str:
        asked.append(action)
        goes_on.wait(TIMEOUT)
        return action

    with answering(perform):
        first = threading.Thread(target=request, args=(DemoAction.SHOW,))
        first.start()
        eventually(lambda: asked, "the first one is being performed")
        with monkeypatch.context() as patch, pytest.raises(TimedOut):
            patch.setattr(running, "_ANSWER_S", 0.1)
            request(DemoAction.KILL_SOURCE)
        goes_on.set()
        request(DemoAction.STOP_PRODUCERS)
        first.join()
    assert asked == [DemoAction.SHOW, DemoAction.STOP_PRODUCERS]


def test_consoles_on_files_of_the_demo_offer_its_actions(home: Path) -> None:
    beside = [str(home / "data" / "pipeline-reverse.yaml")]
    assert [step.id for step in steps_beside(beside)] == [str(action) for action in DemoAction]
    assert [step.id for step in steps_beside(beside)] == list(ACTION_TEXTS)
    assert steps_beside(["pipeline.yaml"]) == ()
    (home / "job.json").unlink()
    assert steps_beside(beside) == ()


def test_the_source_is_killed_and_starts_again_with_its_data(tmp_path: Path) -> None:
    with KafkaNode("source", tmp_path / "source") as node:
        topic = create_topic(node)
        produce(node, topic, [b"kept"])
        applications = Applications(node.bootstrap, node.bootstrap, 1.0, ())
        actions = DemoActions(applications, node)
        assert f"{node.bootstrap}, is down." in actions.perform(DemoAction.KILL_SOURCE)
        # Producers whose cluster is down end, too.
        applications.start()
        actions.perform(DemoAction.STOP_PRODUCERS)
        assert f"{node.bootstrap}, runs." in actions.perform(DemoAction.START_SOURCE)
