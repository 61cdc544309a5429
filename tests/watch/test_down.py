"""Commands while one cluster accepts no connections: what is known, and exit code 3.

How promptly is tested in tests/kafka/test_closed_ports.py: here Python itself takes the time.
"""

from __future__ import annotations

import time

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.copied import Copied
from tests.support.kafka import Out, create_topic, produce
from tests.support.verbs import k2ktui

pytestmark = pytest.mark.slow

CLOSED = {"kafka": {"common": {"bootstrap.servers": "127.0.0.1:1"}}}
VERBS = (
    ("start",),
    ("status",),
    ("groups",),
    ("plan",),
    ("watch", "--once"),
    ("check",),
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


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_a_closed_port_is_reported(copied: Copied, verb: tuple[str, ...], side: str) -> None:
    copied.settings = {side: CLOSED}
    said = k2ktui(*verb, "-f", copied.file)
    assert said.code == 3, said
    assert f"no broker of the {side} cluster accepts connections" in said.out + said.err


def test_status_without_the_source_says_what_the_target_knows(copied: Copied) -> None:
    copied.settings = {"source": CLOSED}
    [row] = k2ktui("status", "-f", copied.file, "--json").json["partitions"]
    assert (row["position"], row["target_end"], row["mapped_records"]) == (4, copied.prior + 4, 4)
    assert (row["state"], row["source_end"], row["lag_records"]) == ("unknown", None, None)
    assert 0 < time.time() - row["copied_at"] < 600
    shown = k2ktui("status", "-f", copied.file).out
    assert "s ago" in shown and "caught-up" not in shown
