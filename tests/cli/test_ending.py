"""`nohup k2ktui …` outlives its terminal; started plainly, it ends with it."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

# As in the commands: handlers for what ends them; then the terminal is closed.
_COMMAND = """
import os, signal
from k2ktui.cli.ending import ending_signals
for number in ending_signals():
    signal.signal(number, lambda *_: os._exit(7))
os.kill(os.getpid(), signal.SIGHUP)
print("still here", flush=True)
os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.mark.parametrize(
    ("inherited", "said"), [(signal.SIG_IGN, "still here\n"), (signal.SIG_DFL, "")]
)
def test_a_hang_up_ends_what_was_not_told_to_ignore_it(
    inherited: signal.Handlers, said: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _COMMAND],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, inherited),
    )
    assert (done.returncode, done.stdout) == (7, said), done.stderr
