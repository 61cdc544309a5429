"""Mappings that groups need, while the mapping topic's retention deletes the older ones."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator, Mapping

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.mapping.translate import Basis
from k2ktui.errors import K2kError, Refused
from k2ktui.kafka.properties.translation import load_checked
from k2ktui.replication.preflight.checks import CheckOutcome
from k2ktui.replication.reports.events import MappingsExpire
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.commit_snapshots import CommitSnapshotRunner
from k2ktui.sync.flow import PipelineFlow
from k2ktui.sync.loop.poll import SyncLoop
from k2ktui.sync.mapping import store as mapping_store
from k2ktui.sync.mapping.keeper import MappingKeeper, check_mappings
from k2ktui.sync.moves.snapshot import take_snapshot
from tests.support.clusters.kafka import (
    admin,
    create_topic,
    end_offsets,
    eventually,
    produce,
    start_offsets,
)
from tests.support.commands.cli import k2ktui
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied
from tests.support.records.kinds import delete_before

HOUR_MS = 3_600_000
# Long enough for a busy machine: a repeat is due in the second half of it.
RETENTION_MS = 40_000
PRIOR = 7
NO_SOURCE = {"source": {"kafka": {"common": {"bootstrap.servers": "127.0.0.1:9"}}}}


@pytest.fixture
def topic(copied: Copied, source: KafkaNode) -> str:
    """A copied topic of 200 records with groups at its start, in its middle and at its end."""
    name = create_topic(source)
    produce(source, name, [b"%d" % n for n in range(200)])
    copied.put_run()
    copied.copy(name)
    for stem, at in {"start": 0, "middle": 101, "end": 200}.items():
        commit_offsets(source, copied.group(stem), {(name, 0): at})
    return name


def set_retention(copied: Copied, milliseconds: int, **more: str) -> None:
    values = {"retention.ms": str(milliseconds), "segment.ms": "1000", **more}
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in values.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, copied.mappings, incremental_configs=entries)
    client = admin(copied.target)
    client.incremental_alter_configs([resource])[resource].result(60)


def without_source(copied: Copied) -> PipelineConfig:
    """Return the file with an address of the source where nothing answers."""
    settings, copied.settings = copied.settings, {**copied.settings, **NO_SOURCE}
    try:
        return copied.config
    finally:
        copied.settings = settings


def keep_commits(copied: Copied) -> None:
    """Write the commits of the source's groups, as each run and ``sync`` does."""
    said: list[str] = []
    CommitSnapshotRunner(copied.config, said.append).do_once()
    assert said == []


def translated(config: PipelineConfig) -> dict[str, tuple[int | None, Basis]]:
    """Return the offset and the basis of each group."""
    snapshot = take_snapshot(PipelineFlow(config))
    from k2ktui.sync.moves.plans import make_pipeline_plan, plan_options

    plan = make_pipeline_plan(snapshot, plan_options(config))
    return {row.group.rpartition("-")[2]: (row.proposed, row.basis) for row in plan.rows}


EVERYTHING: Mapping[str, tuple[int | None, Basis]] = {
    "start": (PRIOR, Basis.EXACT),
    "middle": (PRIOR + 101, Basis.EXACT),
    "end": (PRIOR + 200, Basis.END),
}


@pytest.mark.slow
def test_a_run_without_sync_keeps_them_while_the_source_is_down(
    copied: Copied, topic: str, target: KafkaNode
) -> None:
    """It needs no right on the source and no answer of it: groups are those of the snapshots."""
    keep_commits(copied)
    config = without_source(copied)
    set_retention(copied, RETENTION_MS)
    said, events = list[str](), list[MappingsExpire]()
    with MappingKeeper(config, said.append, feed=events.append):
        # What was written at first, and what was repeated at first, has expired.
        for _ in range(2):
            end = end_offsets(target, copied.mappings)[0]
            eventually(
                lambda end=end: start_offsets(target, copied.mappings)[0] >= end,
                "the topic has deleted what it had",
            )
    assert translated(config) == EVERYTHING
    assert said == []
    lives = [event.at for event in events]
    assert None not in lives and lives == sorted(lives, key=float), "each repeat lives longer"


@pytest.mark.slow
def test_sync_keeps_them_while_the_source_is_down(
    copied: Copied, topic: str, target: KafkaNode
) -> None:
    keep_commits(copied)
    config = without_source(copied)
    set_retention(copied, RETENTION_MS)
    with contextlib.closing(SyncLoop(PipelineFlow(config))) as loop:

        def expired(end: int) -> bool:
            loop.turn()
            return start_offsets(target, copied.mappings)[0] >= end

        for _ in range(2):
            end = end_offsets(target, copied.mappings)[0]
            eventually(lambda end=end: expired(end), "the topic has deleted what it had")
    assert translated(config) == EVERYTHING
