"""An upgrade of k2ktui, and one that is taken back: what the other release has begun goes on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from k2ktui.drill.checks.catalog import CATALOG
from k2ktui.engine.drill.model import DrillStatus
from k2ktui.runtime.node import KafkaNode
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.commands.earlier_code import BEFORE, path_of, unpack
from tests.support.drill.runs import Pair, remove_quotas, settled

pytestmark = pytest.mark.slow
# Both releases have these checks.
KNOWN = [name for name in CATALOG if name <= "D50"]
QUICKLY = ("--frozen", "1", "--wait", "300", "--watch", "10", "--accept", ",".join(KNOWN))


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    return path_of(unpack(BEFORE, tmp_path_factory.mktemp("earlier")))


@pytest.fixture
def pair(tmp_path: Path, source: KafkaNode, target: KafkaNode) -> Iterator[Pair]:
    yield Pair(tmp_path, source, target)
    remove_quotas(source)


@pytest.mark.parametrize("goes", ["up", "down"])
@pytest.mark.parametrize("what", ["whole", "topics"])
def test_the_other_release_goes_on(
    pair: Pair, earlier: Mapping[str, str], goes: str, what: str
) -> None:
    """Holds, the journal with what was applied, moved topics, and an open drill survive."""
    now: Mapping[str, str] = {}
    first, then = (earlier, now) if goes == "up" else (now, earlier)
    file, (moved, held) = pair.file, pair.topics
    topics = ("--topics", moved) if what == "topics" else ()

    k2ktui("hold", "-f", file, f"{held}:1", "--why", "a migration", "--yes", env=first)
    k2ktui("plan", "-f", file, "-o", pair.directory / "plan.json", env=first)
    k2ktui("apply", pair.directory / "plan.json", "-f", file, "--yes", env=first)
    k2ktui(
        "drill", "planned", "-f", file, *topics, *QUICKLY,
        "--yes-to", "topics,apply", code=5, env=first,
    )  # fmt: skip
    settled(pair.flow)

    (hold,) = k2ktui_json("hold", "-f", file, env=then)["holds"]
    assert (hold["topic"], hold["partition"]) == (held, 1)
    operations = {
        entry["operation"] for entry in k2ktui_json("journal", "-f", file, env=then)["journal"]
    }
    assert {"hold", "apply"} <= operations
    (drill,) = pair.drills()
    shown = k2ktui("drill", "show", drill.id, "-f", file, env=then).stdout
    assert "You can still go back" in shown and "No process acts on it" in shown
    # Nothing copies here, which its checks find.
    k2ktui("drill", "resume", drill.id, "-f", file, "--yes-to", "all", code=1, env=then)
    (ended,) = pair.drills()
    assert ended.status is DrillStatus.DONE
    for env in (now, earlier):
        k2ktui("drill", "report", drill.id, "-f", file, "--verify", env=env)
    for number, group in enumerate(pair.groups):
        assert pair.target_offsets(group) == pair.expected_offsets(number)
