"""How signals end commands.

`nohup k2ktui …` outlives its terminal; started plainly, it ends with it. A second signal ends a
command at once.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from k2ktui.cli.mm2 import publish
from k2ktui.cli.terminal.streams import ending_signals
from k2ktui.mm2.publish import Published
from tests.support.clusters.kafka import TIMEOUT
from tests.support.commands.in_process import invoke
from tests.unit.config.files import MINIMAL

# As in the commands: handlers for what ends them; then the terminal is closed.
_COMMAND = """
import os, signal
from k2ktui.cli.terminal.streams import ending_signals
for number in ending_signals():
    signal.signal(number, lambda *_: os._exit(7))
os.kill(os.getpid(), signal.SIGHUP)
print("still here", flush=True)
os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.mark.parametrize(
    ("inherited", "said"), [(signal.SIG_IGN, "still here\n"), (signal.SIG_DFL, "")]
)
def test_a_hang_up_ends_what_was_not_set_to_ignore_it(
    inherited: signal.Handlers, said: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _COMMAND],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, inherited),
    )
    assert (done.returncode, done.stdout) == (7, said), done.stderr


class SlowPublisher:
    """A publisher whose turn gets ``signals`` signals, and lasts unless one of them ends it."""

    signals = 1
    ended = False

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def turn(self) -> Published:
        for _ in range(self.signals):
            signal.raise_signal(signal.SIGTERM)
        type(self).ended = True
        return Published(0, 0, 0)

    def close(self) -> None:
        pass


@pytest.mark.parametrize(("signals", "code", "turn_ended"), [(1, 0, True), (2, 130, False)])
def test_a_second_signal_ends_publishing_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signals: int, code: int, turn_ended: bool
) -> None:
    (tmp_path / "p.yaml").write_text(MINIMAL)
    monkeypatch.setattr("k2ktui.mm2.publish.Publisher", SlowPublisher)
    monkeypatch.setattr(SlowPublisher, "signals", signals)
    monkeypatch.setattr(SlowPublisher, "ended", False)
    handlers = {number: signal.getsignal(number) for number in ending_signals()}
    try:
        done = invoke(publish, "-f", tmp_path / "p.yaml")
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert (done.code, SlowPublisher.ended) == (code, turn_ended), done.output
