"""A topic without traffic outlives its mapping: groups at its ends keep an exact position."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from k2ktui.engine.moves.groups import make_group_rows
from k2ktui.kafka.properties.translation import load_checked
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.flow import Flow
from k2ktui.sync.moves.snapshot import SnapshotReader
from tests.support.clusters.kafka import (
    Out,
    create_topic,
    end_offsets,
    eventually,
    produce,
    produce_transaction,
    read_all,
    unique_name,
)
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import committed, delete_records
from tests.support.pipelines.pipeline import Pipeline

pytestmark = pytest.mark.slow

NATIVE = b"native"
NOWHERE = {"source.kafka.common": {"bootstrap.servers": "localhost:1"}}


class Quiet:
    """Two topics that were copied in two runs, and one whose copies two source topics share.

    Other programs wrote to the target before, between and after. ``plain`` has 200 records, and
    the first record of ``gaps`` is behind an aborted transaction.
    """

    def __init__(self, directory: Path, source: KafkaNode, target: KafkaNode) -> None:
        self.source, self.target = source, target
        self.plain, self.gaps = create_topic(source), create_topic(source)
        self.mappings = unique_name("__mappings").replace("-", "_")
        self.pipeline = Pipeline(
            directory,
            source,
            target,
            [self.plain, self.gaps],
            {
                "offsetMapping.topic": self.mappings,
                "coordination.commit.topic": unique_name("__commits").replace("-", "_"),
                "coordination.state.topic": unique_name("__state").replace("-", "_"),
            },
        )
        self.pipeline.settings = {
            **self.pipeline.settings,
            "groups.consumerGroups": f"^{self.pipeline.name}-.*",
        }
        for topic in (self.plain, self.gaps):
            create_topic(target, topic)
            produce(target, topic, [Out(NATIVE)] * 5)
        produce_transaction(source, self.gaps, [b"never"] * 3, commit=False)
        eventually(lambda: end_offsets(source, self.gaps)[0] == 4, "the marker is written")
        self.copy(0)
        for topic in (self.plain, self.gaps):
            produce(target, topic, [Out(NATIVE)] * 3)
        self.copy(100)
        self.ends = {t: end_offsets(source, t)[0] for t in (self.plain, self.gaps)}
        assert self.ends == {self.plain: 200, self.gaps: 204}

    def copy(self, first: int) -> None:
        """Write 100 records to each topic, and copy them."""
        for topic in (self.plain, self.gaps):
            produce(self.source, topic, [Out(b"%d" % (first + n)) for n in range(100)])
        self.pipeline.catch_up()

    def commit(self, stem: str, topic: str, offset: int) -> str:
        group = f"{self.pipeline.name}-{stem}"
        commit_offsets(self.source, group, {(topic, 0): offset})
        return group

    def would_read(self, topic: str, offset: int) -> list[bytes | None]:
        """Return the copies that a group reads on the target from an offset on."""
        records = read_all(self.target, topic)
        return [got.value for got in records if got.offset >= offset and got.value != NATIVE]

    def unread(self, topic: str, offset: int) -> list[bytes | None]:
        return [got.value for got in read_all(self.source, topic) if got.offset >= offset]

    def planned(self, file: Path | None = None) -> dict[str, dict[str, Any]]:
        rows = k2ktui_json("plan", "-f", file or self.pipeline.write(), code=None)["rows"]
        return {row["group"]: row for row in rows}


def test_groups_at_the_ends_are_exact_in_every_command(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    """And a rehearsal passes."""
    quiet = Quiet(tmp_path, source, target)
    plain, gaps = quiet.plain, quiet.gaps
    places = {
        "first": (plain, 0), "between": (plain, 101), "end": (plain, 200),
        "before": (gaps, 2), "gap": (gaps, 4), "last": (gaps, 204),
    }  # fmt: skip
    groups = {stem: quiet.commit(stem, *at) for stem, at in places.items()}
    file = quiet.pipeline.write()
    before = quiet.planned()
    assert {row["basis"] for row in before.values()} == {"exact", "end"}
    k2ktui("sync", "-f", file, "--once", "--dry-run", code=None)
    snapshots = SnapshotReader(Flow(load_checked((str(file),)).config))
    try:
        snapshots.take()
        delete_records(target, quiet.mappings)
        # A process that has read the mappings sees what a new one does.
        kept = snapshots.take()
    finally:
        snapshots.close()
    after = quiet.planned()
    assert {row.group: (row.translated_offset, row.basis) for row in make_group_rows(kept)} == {
        group: (row["proposed"], row["basis"]) for group, row in after.items()
    }
    sure = groups.keys() - {"between"}
    for stem in sure:
        row, old = after[groups[stem]], before[groups[stem]]
        assert (row["basis"], row["proposed"]) == (old["basis"], old["proposed"]), (stem, row)
        topic, offset = places[stem]
        assert quiet.would_read(topic, row["proposed"]) == quiet.unread(topic, offset)
        assert (row["action"], row["reread"], row["skipped"]) == ("create", 0, 0)
    between = after[groups["between"]]
    if between["basis"] != "unmapped":  # found by comparing records
        assert between["proposed"] <= before[groups["between"]]["proposed"]

    for stem in sure:
        topic, offset = places[stem]
        (row,) = k2ktui_json("translate", "-f", file, f"{topic}:0:{offset}", code=None)["positions"]
        assert (row["translated_offset"], row["basis"]) == (
            after[groups[stem]]["proposed"],
            after[groups[stem]]["basis"],
        )
    rows = k2ktui_json("groups", "-f", file, code=None)["groups"]
    assert {row["group"]: (row["translated_offset"], row["basis"]) for row in rows} == {
        group: (row["proposed"], row["basis"]) for group, row in after.items()
    }

    check_rehearsal(quiet, {stem: groups[stem] for stem in sure})

    file, path = quiet.pipeline.write(), tmp_path / "plan.json"
    k2ktui("plan", "-f", file, "-o", path, code=None)
    k2ktui("apply", path, "--yes", code=None)
    for stem in sure:
        where = (places[stem][0], 0)
        at = committed(target, groups[stem], [where])[where]
        assert at == after[groups[stem]]["proposed"]
    k2ktui("verify", "-f", file)  # all that were moved are the same, or it exits with 1
    rows = k2ktui_json("groups", "-f", file, code=None)["groups"]
    states = {row["group"]: (row["divergence"], row["reread_now"]) for row in rows}
    assert {states[groups[stem]] for stem in sure} == {(0, 0)}

    # Other programs go on writing there; the pipeline has written nothing, and its source is down.
    produce(target, plain, [Out(NATIVE)] * 4)
    k2ktui("sync", "-f", file, "--once", code=None)
    quiet.pipeline.settings = {**quiet.pipeline.settings, **NOWHERE}
    lost = quiet.planned(quiet.pipeline.write())
    assert (lost[groups["first"]]["basis"], lost[groups["first"]]["proposed"]) == ("exact", 5)
    end = lost[groups["end"]]
    assert end["basis"] == "end" and quiet.would_read(plain, end["proposed"]) == []


def check_rehearsal(quiet: Quiet, sure: Mapping[str, str]) -> None:
    """A rehearsal of these groups passes; they are named by stem."""
    settings, stems = quiet.pipeline.settings, "|".join(sure)
    quiet.pipeline.settings = {
        **settings,
        "groups.consumerGroups": f"^{quiet.pipeline.name}-({stems})$",
    }
    reply = k2ktui_json("drill", "rehearse", "-f", quiet.pipeline.write(), code=None)
    quiet.pipeline.settings = settings
    checks = {check["id"]: (check["outcome"], check["evidence"]) for check in reply["checks"]}
    assert checks["D14"][0] == "pass" and checks["D15"][0] == "pass", checks
    assert "the mapping of 2 partitions has expired" in checks["D15"][1]
    results = {group["group"]: group for group in reply["groups"]}
    assert results.keys() == {*sure.values()}
    for result in results.values():
        assert (result["unmapped"], result["reread"], result["skipped"]) == (0, 0, 0)
        assert result["different"] == 0
