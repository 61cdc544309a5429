"""Commands while one cluster, or both, accept no connections: what is known, and exit code 3."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import pytest

from k2ktui.cli.main import cli
from k2ktui.cli.terminal.streams import ending_signals
from k2ktui.errors import ExitCode, K2kError
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import Out, create_topic, produce
from tests.support.commands.in_process import invoke
from tests.support.commands.verbs import k2ktui
from tests.support.commands.waiting import PROMPT_S, seconds_waited
from tests.support.pipelines.copied import Copied

pytestmark = pytest.mark.slow

CLOSED = {"kafka": {"common": {"bootstrap.servers": "127.0.0.1:1"}}}
BOTH = "source target"
VERBS = (
    ("start",),
    ("status",),
    ("groups",),
    ("plan",),
    ("watch", "--once"),
    ("check",),
    ("sync",),
    ("sync", "--once"),
    ("verify",),
)
# The source is not needed, or its absence is one of the findings.
TARGET_ONLY = (
    ("translate", "orders:0:1"),
    ("journal",),
    ("drill", "list"),
)
# All but the start of a run ask the target first: with both closed, they end as without a target.
CASES = (
    *((verb, side) for verb in VERBS for side in ("source", "target")),
    *((verb, "target") for verb in TARGET_ONLY),
    (("start",), BOTH),
    (("status",), BOTH),
)


@pytest.fixture(scope="module")
def copied(
    clusters: tuple[KafkaNode, KafkaNode], tmp_path_factory: pytest.TempPathFactory
) -> Copied:
    source, target = (node.start() for node in clusters)
    copied = Copied(tmp_path_factory.mktemp("down"), source, target)
    topic = create_topic(source)
    produce(source, topic, [Out(b"x")] * 4)
    copied.copy(topic)
    return copied


@pytest.fixture
def own_handlers() -> Iterator[None]:
    """What a command in this process does to the handlers of signals is undone."""
    before = {number: signal.getsignal(number) for number in ending_signals()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def named(part: tuple[str, ...] | str) -> str:
    """Return what a parameter is called."""
    return part if isinstance(part, str) else " ".join(part)


def close(copied: Copied, sides: str) -> None:
    copied.settings = dict.fromkeys(sides.split(), CLOSED)


def run_promptly(copied: Copied, verb: tuple[str, ...], writes: bool = False) -> tuple[int, str]:
    """Run a command that waits for no cluster longer than a refusal takes.

    Args:
        copied: the pipeline.
        verb: the command.
        writes: it writes to the cluster that is there, whose speed is another matter.

    Returns:
        Its exit code, and what it says.
    """
    file = copied.file
    ends: list[tuple[int, str]] = []

    def run() -> None:
        try:
            ended = invoke(cli, *verb, "-f", file)
        except K2kError as error:
            ends.append((error.exit_code, error.message))
        else:
            ends.append((ended.code, ended.output))

    assert seconds_waited(run, PROMPT_S) < PROMPT_S or writes
    return ends[-1]


@pytest.mark.usefixtures("own_handlers")
@pytest.mark.parametrize(("verb", "sides"), CASES, ids=named)
def test_a_closed_port_is_reported_promptly(
    copied: Copied, verb: tuple[str, ...], sides: str
) -> None:
    """The start of Python, which depends on the machine, is not counted."""
    close(copied, sides)
    code, said = run_promptly(copied, verb, writes=(verb, sides) == (("sync",), "source"))
    assert code == ExitCode.CONNECTION, said
    side = ("source" if verb[0] == "start" else "target") if sides == BOTH else sides
    assert f"no broker of the {side} cluster accepts connections" in said


@pytest.mark.usefixtures("own_handlers")
@pytest.mark.parametrize(("sides", "code"), [("source", 1), ("target", 1), (BOTH, 3)])
def test_checks_of_a_drill_name_each_closed_cluster(copied: Copied, sides: str, code: int) -> None:
    close(copied, sides)
    ended, said = run_promptly(copied, ("drill", "check"))
    assert ended == code, said
    for side in sides.split():
        assert f"no broker of the {side} cluster accepts connections" in said


def test_status_without_the_source_says_what_the_target_knows(copied: Copied) -> None:
    copied.settings = {"source": CLOSED}
    [row] = k2ktui("status", "-f", copied.file, "--json").json["partitions"]
    assert (row["position"], row["target_end"], row["mapped_records"]) == (4, copied.prior + 4, 4)
    assert (row["state"], row["source_end"], row["lag_records"]) == ("unknown", None, None)
    assert 0 < time.time() - row["copied_at"] < 3600
    shown = k2ktui("status", "-f", copied.file).out
    assert "s ago" in shown and "caught-up" not in shown
