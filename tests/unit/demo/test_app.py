"""The demo from start to end, with a stand-in for the pipeline's process."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from pathlib import Path

import psutil
import pytest

from k2ktui.demo import app, pipeline
from k2ktui.demo.app import Demo, DemoOptions
from k2ktui.demo.running import DemoEnded, demo_place, ending_signals
from k2ktui.demo.screen import Screen
from k2ktui.errors import ExitCode, K2kError, Refused
from k2ktui.watch import poller
from k2ktui.watch.feed import Listener
from k2ktui.watch.model import PartName
from tests.support.clusters.kafka import eventually
from tests.support.console.views import StubFeed, usual


class FailingFeed(StubFeed):
    """Fails once, as when a cluster is away, then reports."""

    def __init__(self) -> None:
        super().__init__(usual())
        self.taken = 0

    def start(self, listener: Listener) -> None:
        self.made.errors = {PartName.SOURCE: "A cluster does not answer."}
        super().start(listener)
        self.made.errors = {}
        self.tell()

    def tell(self) -> None:
        self.taken += 1
        super().tell()


@pytest.fixture
def feed(monkeypatch: pytest.MonkeyPatch) -> FailingFeed:
    """The views that the demo shows, and a pipeline that runs forever."""
    made = FailingFeed()
    monkeypatch.setattr(poller, "open_poller", lambda *_: made)
    use_fault(monkeypatch, "")
    return made


class StandIn:
    """Stands in for the pipeline's job."""

    def __init__(self, log_path: Path, fault: str) -> None:
        self.log_path = log_path
        self._fault = fault

    def fault(self) -> str:
        return self._fault

    def stop(self) -> None:
        return


def use_fault(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    def start(config: Path, log: Path) -> StandIn:
        assert config.is_file()
        return StandIn(log, fault)

    monkeypatch.setattr(pipeline, "DemoPipeline", start)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the demo is kept."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return demo_place().directory


def run_demo(options: DemoOptions) -> ExitCode:
    return Demo(options, Screen(), lambda *_: pytest.fail("there is no terminal")).run()


def children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


@pytest.mark.slow
def test_runs_keeps_continues_and_is_ended_by_ctrl_c(
    feed: FailingFeed, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = set(children())
    unfinished = home / "data" / "source" / "rest"  # of a demo killed while it began
    unfinished.parent.mkdir(parents=True)
    unfinished.touch()
    assert run_demo(DemoOptions(seconds=0, keep=True, rate=0.2)) is ExitCode.OK
    assert feed.closed
    assert not unfinished.exists()
    assert set(children()) == before
    said = capsys.readouterr().out
    assert "autoCreateControlTopics" in said
    assert "A cluster does not answer." in said
    assert "Continuing" not in said

    interrupt_once_shown(feed, DemoOptions(rate=0.2))
    assert "Continuing with the data of an earlier demo" in capsys.readouterr().out
    assert not (home / "data").exists()
    assert set(children()) == before


@pytest.mark.slow
def test_pipeline_that_ends_by_itself_is_an_error_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, feed: FailingFeed, home: Path
) -> None:
    use_fault(monkeypatch, "the pipeline has ended: the reason")
    before = set(children())
    with pytest.raises(K2kError, match="The pipeline has ended: the reason"):
        run_demo(DemoOptions(rate=0.2))
    assert (home / "data" / "pipeline.yaml").exists(), "the data stays"
    assert set(children()) == before


def test_waiting_for_views_goes_on_without_one(feed: FailingFeed, tmp_path: Path) -> None:
    """As ``--seconds`` and the bound of a tour's wait are looked at in between."""
    config = tmp_path / "pipeline.yaml"
    pipeline.write_yaml(config, "source:1", "target:1")
    with contextlib.closing(pipeline.views(config, None, str, 2.0)) as made:
        assert [next(made) is None for _ in range(3)] == [False, False, True]


def test_two_demos_do_not_share_data(home: Path) -> None:
    home.mkdir(parents=True)
    with app.lock_demo(), pytest.raises(Refused), app.lock_demo():
        pass


def interrupt_once_shown(feed: FailingFeed, options: DemoOptions) -> None:
    """Run a demo, and press Ctrl-C when its figures are shown."""
    taken, done = feed.taken, threading.Event()

    def interrupt() -> None:
        eventually(lambda: feed.taken > taken + 1 or done.is_set(), "the figures are shown")
        if not done.is_set():
            os.kill(os.getpid(), signal.SIGINT)

    helper = threading.Thread(target=interrupt)
    helper.start()
    try:
        assert run_demo(options) is ExitCode.INTERRUPTED
    finally:
        done.set()
        helper.join()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_unwind_and_handlers_come_back(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(DemoEnded) as raised, ending_signals():
        signal.raise_signal(number)
    assert raised.value.number == number
    assert str(raised.value) in {"Ctrl-C", "the closed terminal", "SIGTERM"}
    assert signal.getsignal(number) is before


def test_a_signal_does_not_interrupt_a_demo_that_ends() -> None:
    with ending_signals() as ends:
        ends()
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
