"""The console on real terminals: what it writes, and what it leaves when it ends."""

from __future__ import annotations

import re
import signal
import sys
import time
from pathlib import Path

import pytest

from k2ktui.errors import ExitCode
from k2ktui.watch.recording import Recorder
from tests.support.clusters.kafka import TIMEOUT, eventually
from tests.support.console.terminal import Terminal
from tests.support.console.tmux import TMUX, Tmux
from tests.support.console.views import Made, usual
from tests.support.jobs.jobs import silent_port, write_pipeline
from tests.support.pipelines.environment import CONSOLE as ENVIRONMENTS
from tests.support.pipelines.environment import Case

pytestmark = pytest.mark.slow

CONSOLE = [sys.executable, "-m", "k2ktui"]
MOUSE = b"\x1b[?1000h"  # mouse events are wanted
LEFT = b"\x1b[?1049l"  # the alternate screen is left


def busy() -> Made:
    """Forty partitions, so that a table of 120x40 is full."""
    made = usual()
    for number in range(36):
        made.partition("orders", number, end=10_000 + number)
    return made


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Five views, one second apart; all figures change from each to the next but the last."""
    path = tmp_path / "session.k2k"
    recorder, made = Recorder(path), busy()
    for number in range(5):
        recorder.add(made.view())
        made.now += 1
        made.copy(100 + 10 * number)
    recorder.close()
    return path


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path), "LANG": "C.UTF-8"}


def replay(recording: Path, env: dict[str, str], size: tuple[int, int] = (80, 24)) -> Terminal:
    return Terminal([*CONSOLE, "--replay", str(recording)], size=size, env=env)


def test_a_refresh_costs_little_and_nothing_costs_nothing(
    recording: Path, env: dict[str, str]
) -> None:
    with replay(recording, env, (120, 40)) as terminal:
        terminal.await_text("replay ")
        terminal.send("p2")
        terminal.await_text("clicks-2")
        terminal.read(1.5)
        costs = []
        for _ in range(4):
            terminal.send("]")
            first = terminal.first(5)  # nothing after the last view
            costs.append(len(first) + len(terminal.read(1.5)))
        assert max(costs) <= 6_000, costs
        assert terminal.read(3) == b""


@pytest.mark.parametrize("case", ENVIRONMENTS, ids=lambda case: case.shown)
def test_the_console_opens_whatever_is_exported(
    recording: Path, env: dict[str, str], case: Case
) -> None:
    with replay(recording, {**env, **case.variables}, (120, 40)) as terminal:
        terminal.await_text("replay ")
        terminal.read(1.5)
        assert terminal.process.poll() is None, "it was told to end, or to take a picture"
        terminal.send("q")
        assert terminal.wait() == 0
        assert b"Traceback" not in terminal.output and b"internal error" not in terminal.output


def test_it_draws_in_unicode_with_a_mouse_and_restores_the_terminal(
    recording: Path, env: dict[str, str]
) -> None:
    with replay(recording, env) as terminal:
        terminal.await_text("replay ")
        assert not terminal.output.isascii() and MOUSE in terminal.output
        assert terminal.now() != terminal.attributes
        terminal.send("q")
        assert terminal.wait() == 0
        assert terminal.now() == terminal.attributes
        assert LEFT in terminal.output
        for mode in re.findall(rb"\x1b\[\?(\d+)h", terminal.output):
            assert terminal.output.rindex(b"\x1b[?%sl" % mode) or mode == b"25"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it_orderly(
    recording: Path, env: dict[str, str], number: signal.Signals
) -> None:
    with replay(recording, env) as terminal:
        terminal.await_text("replay ")
        terminal.process.send_signal(number)
        assert terminal.wait() == 0
        assert LEFT in terminal.output
        assert terminal.now() == terminal.attributes


HUNG_UP = """
import sys
from k2ktui.console import terminal
late = sys.argv[1]
terminal._end_at_once = lambda: print("too late", file=open(late, "w"))
terminal._GONE_S = 60.0  # a busy machine may need longer than the user has to wait
from k2ktui.cli.main import main
sys.argv[1:2] = []
main()
"""


def crashes(state: Path) -> list[str]:
    """Return what the reports of crashes say; a terminal that is lost is none."""
    return [path.read_text() for path in (state / "k2ktui").glob("crash-*.txt")]


def test_a_hang_up_ends_it(recording: Path, env: dict[str, str], tmp_path: Path) -> None:
    """In order: a demo goes on without its console. The kernel sends SIGHUP and SIGCONT."""
    late = tmp_path / "late"
    command = [sys.executable, "-c", HUNG_UP, str(late), "--replay", str(recording)]
    env["PYTHONPATH"] = str(Path(__file__).parents[2])
    with Terminal(command, env=env) as terminal:
        terminal.await_text("replay ")
        terminal.hang_up()
        terminal.process.send_signal(signal.SIGCONT)
        assert terminal.wait(TIMEOUT) == 0
        assert not late.exists()
        assert crashes(tmp_path) == []


def test_a_hang_up_that_is_ignored_ends_it_too(
    recording: Path, env: dict[str, str], tmp_path: Path
) -> None:
    command = ["sh", "-c", f"trap '' HUP; exec {' '.join(CONSOLE)} --replay {recording}"]
    with Terminal(command, env=env) as terminal:
        terminal.await_text("replay ")
        terminal.hang_up()
        assert terminal.wait(TIMEOUT) == 0
        assert crashes(tmp_path) == []


DEAF = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGWINCH})
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def test_a_resize_is_noticed_though_its_signal_is_lost(
    recording: Path, env: dict[str, str]
) -> None:
    command = [sys.executable, "-c", DEAF, "-m", "k2ktui", "--replay", str(recording)]
    with Terminal(command, env=env) as terminal:
        terminal.await_text("replay ")
        terminal.resize(50, 12)
        terminal.await_text("too small: 50 by 12")


def test_without_utf_8_it_draws_ascii(recording: Path, env: dict[str, str]) -> None:
    with replay(recording, {**env, "LANG": "C"}) as terminal:
        terminal.await_text("replay ")
        terminal.send("2")
        terminal.await_text("clicks-2")
        assert terminal.output.isascii()


def test_no_mouse_over_ssh(recording: Path, env: dict[str, str]) -> None:
    with replay(recording, {**env, "SSH_CONNECTION": "a 1 b 2"}) as terminal:
        terminal.await_text("replay ")
        assert MOUSE not in terminal.output


@pytest.mark.parametrize(
    ("own", "allowed"),
    [
        ({"NO_COLOR": "1"}, rb""),
        ({"TERM": "xterm"}, rb"(3|9|4|10)\d"),
        ({"TERM": "xterm-256color"}, rb"[34]8;5;\d+"),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, rb"[34]8;2;\d+;\d+;\d+"),
    ],
    ids=["none", "16", "256", "millions"],
)
def test_colours_are_those_of_the_terminal(
    recording: Path, env: dict[str, str], own: dict[str, str], allowed: bytes
) -> None:
    with replay(recording, {**env, **own}) as terminal:
        terminal.await_text("replay ")
        terminal.read(0.5)
        sequences = b";".join(re.findall(rb"\x1b\[([\d;]*)m", terminal.output))
    rest = re.sub(rb"\b%s\b" % allowed, b"", sequences) if allowed else sequences
    assert set(re.findall(rb"\d+", rest)) <= {b"0", b"1", b"2", b"3", b"4", b"7", b"39", b"49"}
    if allowed:
        assert re.search(allowed, sequences)


def test_a_theme_file_that_is_wrong_does_not_stop_it(
    recording: Path, env: dict[str, str], tmp_path: Path
) -> None:
    themes = tmp_path / "k2ktui" / "themes"
    themes.mkdir(parents=True)
    (themes / "bad.yaml").write_text("name: [")
    with replay(recording, env) as terminal:
        terminal.await_text("theme bad.yaml")


def test_keys_that_arrive_together_neither_end_it_nor_get_lost(
    recording: Path, env: dict[str, str]
) -> None:
    with replay(recording, env) as terminal:
        terminal.await_text("1,200")
        terminal.send(":")
        terminal.send("replication\r")
        terminal.await_text("clicks-2")
        terminal.send("t\r\r")
        terminal.send("3\rq3\r")  # there, into a group, back, and into it again
        terminal.await_text("Groups \u203a ")
        terminal.send("qqq2")
        assert terminal.wait() == 0, terminal.output[-2000:]


def test_bytes_that_are_no_keys_neither_end_it_nor_act(
    recording: Path, env: dict[str, str]
) -> None:
    with replay(recording, env) as terminal:
        terminal.await_text("1,200")
        for data in (b"\xe9", b"\x1b[M \xa0!", b"\xe1", b"\x1b[97:65;1:3u", b"\x1b[9999999999u"):
            terminal.send(data)
        for data in (b"\x1b[?62;", b"1;4c", b"\x1b]11;rgb:00", b"00/0000/eeee\x1b", b"\\"):
            terminal.send(data)
            assert b"Keys of every screen" not in terminal.read(0.2)
        terminal.send("2")
        terminal.await_text("clicks-2")
        terminal.send("q")
        terminal.send("q")
        assert terminal.wait() == 0


def test_it_draws_again_after_a_stop_and_on_request(recording: Path, env: dict[str, str]) -> None:
    with replay(recording, env) as terminal:
        terminal.await_text("1,200")
        terminal.read(0.5)
        terminal.send("\x0c")
        terminal.await_text("1,200")
        terminal.process.send_signal(signal.SIGSTOP)
        terminal.read(0.5)
        terminal.process.send_signal(signal.SIGCONT)
        terminal.await_text("1,200")
        terminal.send("2")
        terminal.await_text("clicks-2")
        terminal.send("qq")
        assert terminal.wait() == 0
        assert terminal.now() == terminal.attributes


@pytest.mark.skipif(TMUX is None, reason="there is no tmux")
def test_it_is_suspended_and_continued_in_a_shell(recording: Path, env: dict[str, str]) -> None:
    with Tmux(["bash", "--norc", "--noprofile", "-i"], env) as tmux:
        tmux.type(f"clear; {' '.join(CONSOLE)} --replay {recording}")
        tmux.press("Enter")
        tmux.sees("1,200")
        tmux.press("C-z")
        tmux.sees("Stopped")
        assert "1,200" not in tmux.screen
        tmux.type("fg")
        tmux.press("Enter")
        tmux.sees("1,200")
        tmux.press("2")
        tmux.sees("clicks-2")
        tmux.press("q", "q")
        eventually(lambda: "clicks-2" not in tmux.screen, "the shell again")


def test_gnu_screen_has_no_full_colours(recording: Path, env: dict[str, str]) -> None:
    own = {"TERM": "screen-256color", "COLORTERM": "truecolor"}
    with replay(recording, {**env, **own}) as terminal:
        terminal.await_text("1,200")
        assert b"8;2;" not in terminal.output and b"8;5;" in terminal.output
        terminal.send("q")
        assert terminal.wait() == 0
        assert b"\x1b[2J" in terminal.output[: terminal.output.rindex(LEFT)]
    with replay(recording, {**env, **own, "TMUX": "/tmp/tmux,1,0"}) as terminal:
        terminal.await_text("1,200")
        assert b"8;2;" in terminal.output


FAULTY = """
from k2ktui.cli import main
from k2ktui.console.app import open_console
from k2ktui.console.session import Options, Session
from tests.support.console.views import StubFeed, usual

class Faulty(StubFeed):
    def series(self, topic, partition):
        password = "hunter2"
        raise KeyError("boom")

def cli(**_):
    feed = Faulty(usual())
    open_console(Session(feed, feed.made.pair, options=Options(theme="k2k-dark")))

main.cli = cli
main.main()
"""


def test_a_fault_of_ours_shows_no_traceback_and_no_values(env: dict[str, str]) -> None:
    env["PYTHONPATH"] = str(Path(__file__).parents[2])
    with Terminal([sys.executable, "-c", FAULTY], env=env) as terminal:
        terminal.await_text("1,200")
        terminal.send("2")  # its panel reads the series of the first partition
        assert terminal.wait() == ExitCode.INTERNAL
        assert terminal.now() == terminal.attributes
        reported = terminal.output[terminal.output.rindex(LEFT) :].decode()
        assert "internal error in k2ktui (KeyError)" in reported
        assert "Traceback" not in reported
        assert b"hunter2" not in terminal.output


@pytest.mark.skipif(TMUX is None, reason="there is no tmux")
def test_in_tmux_with_256_colours(recording: Path, env: dict[str, str]) -> None:
    with Tmux([*CONSOLE, "--replay", str(recording)], env) as tmux:
        tmux.sees("1,200")
        assert re.search(r"\x1b\[[\d;]*38;5;\d+", tmux.drawn), "256 colours"
        tmux.press("2")
        tmux.sees("clicks-2")
        tmux.press("/", "p", "a", "y")
        tmux.sees("/pay", "2 of 43")
        tmux.press("Escape")
        eventually(lambda: "2 of 43" not in tmux.screen, "all again")
        tmux.press("3")
        tmux.sees("billing")
        tmux.resize(60, 20)
        tmux.sees("billing")
        tmux.resize(50, 12)
        tmux.sees("too small: 50 by 12")
        tmux.resize(60, 20)
        tmux.sees("billing")
        tmux.press("q")
        tmux.sees("ENDED 0")
        assert "billing" not in tmux.screen  # the alternate screen is gone


def test_leaving_does_not_wait_for_silent_clusters(tmp_path: Path, env: dict[str, str]) -> None:
    """Neither for the feed, nor when Python exits."""

    def seconds() -> float:
        with Terminal([*CONSOLE, "-f", str(file)], env=env) as terminal:
            terminal.await_text("no answer for")
            began = time.monotonic()
            terminal.send("q")
            assert terminal.wait() == 0
            assert terminal.now() == terminal.attributes
            return time.monotonic() - began

    with silent_port() as port:
        file = write_pipeline(tmp_path / "p.yaml", port)
        # It was 6 s on an idle machine; a busy one does not hold up all attempts.
        assert any(seconds() < 5.0 for _ in range(10))


def test_a_program_that_goes_on_without_the_console_can_be_continued(
    recording: Path, env: dict[str, str]
) -> None:
    """A shell sends SIGCONT to its jobs when its terminal closes: the demo stays without one."""
    program = (
        "import os, signal, sys; from k2ktui.cli.main import main\n"
        # The screens may still be imported: the program would end at once.
        "from k2ktui.cli.terminal import streams; streams._JOIN_S = 60.0\n"
        f"sys.argv = ['k2ktui', '--replay', {str(recording)!r}]\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "os.kill(os.getpid(), signal.SIGCONT)\n"
        "print('goes on')\n"
    )
    with Terminal([sys.executable, "-c", program], env=env) as terminal:
        terminal.await_text("Overview")
        terminal.send("q")
        terminal.await_text("goes on")
        assert terminal.wait() == 0
