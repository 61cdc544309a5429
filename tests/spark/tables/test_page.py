"""docs/tables.md: its code runs as it stands, on real brokers, and says what is true.

It runs in an environment that has what the page's command installs, and nothing else. That wheels
have all of the program is in ``test_offline_install.py``; tasks on a cluster are in
``test_sessions.py``.
"""

from __future__ import annotations

import re
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from k2ktui.engine.access import Access
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.flow import Flow
from k2ktui.sync.moves.plans import plan_options
from k2ktui.sync.operations import apply_plan, create_plan
from tests.support.clusters.kafka import Out, create_topic, produce, unique_name
from tests.support.clusters.spark_cluster import bare_python
from tests.support.commands.offline import offline_environment
from tests.support.commands.spark_script import User, run_script
from tests.support.commands.verbs import k2ktui
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines import copied as copied_module
from tests.support.pipelines.copied import Copied, only

PAGE = Path(__file__).parents[3] / "docs" / "tables.md"
HOUR_MS = 3_600_000
COUNT = 720


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture
def user(tmp_path: Path) -> User:
    """Somebody who has run the page's command on a host without Java, or Python, on the PATH."""
    (extra,) = re.findall(
        r"<!-- tables -->\n```sh\n.*pip install -q '\.\[(\w+)\]'\n", PAGE.read_text()
    )
    python = bare_python(tmp_path / "python", [f"k2ktui[{extra}]"])
    env = offline_environment(tmp_path / "home")
    for name in ("chmod", "rm"):  # Spark's, where it writes files
        (tmp_path / "home" / "bin" / name).symlink_to(shutil.which(name) or name)
    return User(python, env)


@contextmanager
def an_hour_ago(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        earlier = SimpleNamespace(time=lambda: time.time() - 3600)
        patch.setattr(copied_module, "time", earlier)
        yield


def fill(node: KafkaNode, topic: str, count: int, began_ms: int) -> None:
    """A record a second of each of two hours and some, on both partitions."""
    step = 10_000
    for partition in (0, 1):
        produce(
            node,
            topic,
            [
                Out(b"v%d" % i, b"k%d" % i, partition, timestamp=began_ms + i * step)
                for i in range(count)
            ],
        )


@pytest.mark.slow
def test_the_page_is_true(
    user: User,
    source: KafkaNode,
    target: KafkaNode,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic, old = create_topic(source, unique_name("orders"), 2), create_topic(source)
    one = Copied(tmp_path, source, target, only(topic, old))
    began_ms = int(time.time() * 1000) // HOUR_MS * HOUR_MS - 5 * HOUR_MS
    fill(source, topic, COUNT, began_ms)
    landed = one.copy(topic, step=90)
    produce(source, old, [b"v"] * 3)
    with an_hour_ago(monkeypatch):
        one.copy(old)
    one.put_run()
    produce(source, old, [b"v"] * 4)  # not copied since
    billing, shipping = one.group("billing"), one.group("shipping")
    commit_offsets(source, billing, {(topic, 0): 712, (topic, 1): COUNT})
    commit_offsets(source, shipping, {(topic, 0): 300})
    flow = Flow(one.config)
    options = plan_options(one.config, group=lambda name: name == shipping)
    plan = create_plan(flow, options, (str(one.file),))
    apply_plan(one.config, plan, (str(one.file),), Access(True))
    commit_offsets(target, billing, {(topic, 0): landed[topic, 0][350]})
    (tmp_path / "pipeline.yaml").write_text(one.file.read_text())

    script = "\n".join(blocks())
    script = (
        script.replace("'orders'", repr(topic))
        .replace('"orders"', repr(topic))
        .replace('"billing"', repr(billing))
    )
    rows = "[row.asDict() for row in {}.collect()]".format
    names = ("again", "behind", "hourly", "moves", "translated")
    mapping = "[list(row) for row in spark.read.parquet('mapping').collect()]"
    counts = "{name: spark.table(name).count() for name in ('runs', 'plan', 'records')}"
    ended = run_script(
        script, tmp_path, ["orders", *map(rows, names), mapping, counts], {"TZ": "UTC"}, user=user
    )
    assert ended.code == 0, ended.err[-5000:]
    assert ended.out.count("+---") >= 3 * 4, "four of the queries show what they find"
    found = dict(zip(names, (ended.values[rows(name)] for name in names), strict=True))

    def hour_of(offset: int) -> str:
        at = datetime.fromtimestamp((began_ms + offset * 10_000) // HOUR_MS * 3600, UTC)
        return str(at.replace(tzinfo=None))

    read_again = Counter(hour_of(offset) for offset in range(350, 712))
    assert {row["hour"]: row["records"] for row in found["again"]} == read_again
    assert {row["topic"] for row in found["again"]} == {topic}
    (late,) = found["behind"]
    assert (late["topic"], late["partitions"], late["lag_records"]) == (old, 1, 4)
    each = Counter(hour_of(offset) for offset in range(COUNT) for _ in (0, 1))
    assert {r["hour"]: (r["source"], r["target"]) for r in found["hourly"]} == {
        hour: (count, count) for hour, count in each.items()
    }
    (move,) = [row for row in found["moves"] if row["group"] == shipping]
    assert move["operation"] == "apply" and move["result"] == "applied"
    assert (move["before"], move["after"]) == (None, landed[topic, 0][300])
    assert {(r["target_partition"], r["target_offset"]) for r in found["translated"]} == {
        (0, landed[topic, 0][712]),
        (1, landed[topic, 1][640]),
    }
    said = k2ktui("translate", "-f", one.file, "--json", f"{topic}:0:712", f"{topic}:1:640")
    assert said.code == 0 and f"{landed[topic, 0][712]}" in said.out
    assert (
        f'{{"{topic}": {{"0": {landed[topic, 0][712]}, "1": {landed[topic, 1][640]}}}}}'
        in ended.out
    )
    streamed = {
        (row[0], row[1], row[2] + n): row[6] + n
        for row in ended.values[mapping]
        for n in range(row[3])
    }
    assert (
        streamed.items()
        >= {
            (t, p, offset): there
            for (t, p), pairs in landed.items()
            for offset, there in pairs.items()
        }.items()
    )
    assert ended.values[counts]["records"] == 2 * COUNT + 7
    assert ended.values["orders"] == 2 * COUNT
