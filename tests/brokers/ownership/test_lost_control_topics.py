"""Each control topic is deleted, emptied, cut at its start: what a check says, and what is refused.

docs/troubleshooting.md has the table of these cases. It is made from ``LOSSES``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.moves.journal import Runner, RunnerState
from k2ktui.engine.ownership.assignment_records import owners_key, owners_value
from k2ktui.engine.ownership.slot_owners import SlotOwners
from k2ktui.engine.records.cluster_pair import ClusterPair
from k2ktui.engine.records.run_record import Run, SharedLayout, run_key, run_value
from k2ktui.engine.records.state import SourcePartition, position_key
from k2ktui.errors import ExitCode, Refused
from k2ktui.replication.preflight.checks import Check, CheckOutcome
from k2ktui.replication.preflight.gate import require_startable
from k2ktui.replication.preflight.suite import run_checks
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.mapping.keeper import check_mappings
from k2ktui.sync.store import StateStore
from tests.support.clusters.kafka import (
    Out,
    create_topic,
    delete_before,
    delete_topic,
    end_offsets,
    produce,
    read_all,
    unique_name,
)
from tests.support.commands.cli import k2ktui
from tests.support.documents.markdown import check_section
from tests.support.drill.runs import keep_commits
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied, only

_QUIET, _BUSY = 0, 1  # source partitions; the position of the quiet one is older
PAGE = Path(__file__).parents[3] / "docs" / "troubleshooting.md"


@dataclass(frozen=True)
class Loss:
    """What is done to a control topic of a stopped pipeline, and what the next start does.

    Attributes:
        topic: its role.
        how: what is done to it.
        detected: the beginning of the check's name that says it; "" if none does.
        refused: what is not copied; "" if the start goes on.
        rebuilt: what is rebuilt, and by what.
    """

    topic: str
    how: str
    detected: str
    refused: str
    rebuilt: str


_POSITIONS, _TOPIC, _NEEDED, _NOTHING = "positions", "control topic", "needed mappings", ""
_ALL, _QUIET_ONLY = "the start, with exit code 5", "the partitions without a position"
_RECOVER = "what `k2ktui offsets recover` proves"
_NO_MAPPINGS = "nothing; positions stay"
_KEPT = "nothing"
_LEADER = "the leader writes it again"
LOSSES = (
    Loss("commit", "deleted", _POSITIONS, _ALL, _RECOVER),
    Loss("commit", "emptied", _POSITIONS, _ALL, _RECOVER),
    Loss("commit", "cut at its start", _POSITIONS, _QUIET_ONLY, _RECOVER),
    Loss("commit", "`cleanup.policy=delete` for an hour", _POSITIONS, _ALL, _RECOVER),
    Loss("mapping", "deleted", _TOPIC, _ALL, _NO_MAPPINGS),
    Loss("mapping", "emptied", _NEEDED, _NOTHING, _NO_MAPPINGS),
    Loss("mapping", "cut at its start", _NEEDED, _NOTHING, _NO_MAPPINGS),
    Loss("state", "deleted", _TOPIC, _ALL, _KEPT),
    Loss("state", "emptied", _TOPIC, _NOTHING, _KEPT),
    Loss("state", "cut at its start", _TOPIC, _NOTHING, _KEPT),
    Loss("state", "`cleanup.policy=delete` for an hour", _TOPIC, _NOTHING, _KEPT),
    Loss("assignment", "deleted", _NOTHING, _NOTHING, _LEADER),
    Loss("assignment", "emptied", _NOTHING, _NOTHING, _LEADER),
    Loss("assignment", "cut at its start", _NOTHING, _NOTHING, _LEADER),
    Loss("assignment", "`cleanup.policy=delete` for an hour", _NOTHING, _NOTHING, _LEADER),
)


def _table() -> str:
    """Return the table of the page: a row for all losses of a topic with the same outcome."""
    hows: dict[Loss, list[str]] = {}
    for loss in LOSSES:
        hows.setdefault(replace(loss, how=""), []).append(loss.how)
    rows = [
        f"| {loss.topic} | {', '.join(how)} "
        f"| {f'`check`: {loss.detected}' if loss.detected else 'no'} "
        f"| {loss.refused or 'nothing'} | {loss.rebuilt} |"
        for loss, how in hows.items()
    ]
    head = ["| topic | what happened | detected | refused | rebuilt |", "|---|---|---|---|---|"]
    return "\n".join([*head, *rows, ""])


def test_the_page_has_the_table() -> None:
    check_section(PAGE, "lost control topics", _table())


class Stopped(Copied):
    """A pipeline that runs have shared and copied completely, and that is stopped now."""

    def prepare(self, topic: str, copied_from: str = "") -> None:
        create_topic(self.source, topic, 2)
        produce(self.source, topic, [Out(b"q", None, _QUIET)] * 3 + [Out(b"b", None, _BUSY)] * 3)
        self.assignment = f"__assignment_{self.name.replace('-', '_')}"
        create_topic(self.target, self.assignment, 1, {"cleanup.policy": "compact"})
        self.settings = {
            **only(topic),
            "coordination": {
                "mode": "shared",
                "commit": {"topic": self.commits},
                "state": {"topic": self.state},
                "assignment": {"topic": self.assignment},
            },
        }
        pair = ClusterPair(self.source.cluster_id, self.target.cluster_id, self.mappings)
        self.copy(topic)
        layout = SharedLayout("l", 2, ready=True)
        run = Run(1, 2, self.name, pair=pair, layout=layout, most_shared=2)
        produce(self.target, self.commits, [Out(run_value(run), run_key(self.name))])
        self.put_again(topic, _BUSY)
        owners = SlotOwners(1, "h-1", "l", {0: "h-1", 1: "h-1"})
        produce(self.target, self.assignment, [Out(owners_value(owners), owners_key(self.name))])
        store = StateStore(self.config, self.cluster)
        commit_offsets(self.source, self.group("behind"), {(topic, _QUIET): 1})
        keep_commits(self.config)
        copied_from = copied_from or pair.source
        runner = Runner("h-1", "h", "ops", 1, 1, 1, RunnerState.STOPPED, term=1, source=copied_from)
        for _ in range(2):  # the first one is what is cut
            store.put([runner])
        store.close()

    def put_again(self, topic: str, partition: int) -> None:
        """Write the newest position of a partition once more, as a lap would."""
        key = position_key(self.name, SourcePartition(topic, partition))
        (*_, newest) = [got for got in read_all(self.target, self.commits) if got.key == key]
        produce(self.target, self.commits, [Out(newest.value, newest.key)])

    def lose(self, role: str, how: str) -> None:
        name = {
            "commit": self.commits,
            "mapping": self.mappings,
            "state": self.state,
            "assignment": self.assignment,
        }[role]
        if how == "deleted":
            delete_topic(self.target, name)
            return
        end = end_offsets(self.target, name)
        for partition, offset in end.items():
            # A run record and the position of the busy partition are the newest two records.
            kept = {"commit": 2}.get(role, 1) if how.startswith("cut") else 0
            delete_before(self.target, name, max(0, offset - kept), partition)


@pytest.fixture
def stopped(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Stopped:
    return Stopped(tmp_path, source, target)


def _failing(config: PipelineConfig) -> list[Check]:
    own = (_POSITIONS, _TOPIC)
    checks = [check for check in run_checks(config) if check.name.startswith(own)]
    return [check for check in checks if check.outcome is not CheckOutcome.PASS]


def _lacking(config: PipelineConfig) -> list[Check]:
    """Return the check that groups lack mappings, unless it passes."""
    check = check_mappings(config)
    return [] if check.outcome is CheckOutcome.PASS else [check]


def test_nothing_is_said_of_a_pipeline_that_lost_nothing(stopped: Stopped) -> None:
    stopped.prepare(unique_name())
    assert not _failing(stopped.config) and not _lacking(stopped.config)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: f"{loss.topic} {loss.how}")
def test_a_loss_is_detected_and_refused(stopped: Stopped, loss: Loss) -> None:
    topic = unique_name()
    stopped.prepare(topic)
    stopped.lose(loss.topic, loss.how)
    failing = _failing(stopped.config)
    if loss.detected == _NEEDED:
        assert not failing
        failing = _lacking(stopped.config)
    assert bool(loss.detected) == bool(failing)
    assert all(check.name.startswith(loss.detected) for check in failing)
    if loss.refused == _ALL:
        with pytest.raises(Refused) as refused:
            require_startable(stopped.config, lambda check: None)
        assert refused.value.exit_code is ExitCode.REFUSED
    else:
        assert not any(check.fatal for check in failing)
    if loss.refused == _QUIET_ONLY:
        (check,) = failing
        assert f"{topic}-{_QUIET}" in check.detail and f"{topic}-{_BUSY}" not in check.detail
        assert "offsets recover" in check.hint and "offsets clear" in check.hint


def test_evidence_of_another_pair_of_clusters_refuses_nothing(stopped: Stopped) -> None:
    """Planted: what a run with another source cluster left is taken for this pipeline's."""
    stopped.prepare(unique_name(), "another-source-cluster")
    stopped.lose("commit", "deleted")
    assert not _failing(stopped.config)


def test_what_was_cleared_before_the_loss_is_no_evidence(stopped: Stopped) -> None:
    stopped.prepare(unique_name())
    k2ktui("offsets", "clear", "-f", stopped.file, "--topic", ".*", "--yes")
    stopped.lose("commit", "deleted")
    assert not _failing(stopped.config)


def test_lost_positions_are_set_or_cleared(stopped: Stopped) -> None:
    topic = unique_name()
    stopped.prepare(topic)
    stopped.lose("commit", "deleted")
    k2ktui("offsets", "set", "-f", stopped.file, f"{topic}:{_QUIET}:3", "--yes")
    (check,) = _failing(stopped.config)
    assert not check.fatal and f"{topic}-{_BUSY}" in check.detail
    k2ktui("offsets", "clear", "-f", stopped.file, f"{topic}:{_BUSY}", "--yes")
    assert not _failing(stopped.config)
    state = stopped.commit_state()
    assert state.positions[SourcePartition(topic, _QUIET)].offset == 3
    assert (state.run.lost_term, len(state.positions)) == (0, 1) and state.run.term > 1
