"""Whose commits are kept for a disaster, and when a group's are removed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pytest

from k2ktui.config.load import load
from k2ktui.engine.moves.groups import CommittedOffset, GroupView
from k2ktui.engine.moves.journal import CommitSnapshot, SnapshotKey
from k2ktui.engine.records.cluster_pair import ClusterPair
from k2ktui.sync.cluster_readers import SourceClusterReader, SourceView
from k2ktui.sync.commit_snapshots import (
    POLL,
    UNLISTED,
    CommitSnapshotWriter,
    read_known_commits,
)
from k2ktui.sync.store import PipelineState
from tests.support.clusters.brokers import Brokers
from tests.support.clusters.kafka import TIMEOUT, admin, create_topic, unique_name
from tests.support.oracle.group_offsets import commit_offsets


class Kept:
    """A state topic in memory."""

    def __init__(self, *before: CommitSnapshot) -> None:
        self.by_key = {snapshot.key: snapshot for snapshot in before}

    def read(self) -> PipelineState:
        return PipelineState(commits=tuple(self.by_key.values()))

    def put(self, records: Sequence[Any], gone: Collection[SnapshotKey] = ()) -> None:
        for key in gone:
            self.by_key.pop(key, None)
        self.by_key |= {record.key: record for record in records}

    def groups(self, cluster: str) -> dict[str, CommitSnapshot]:
        snapshots = [snapshot for snapshot in self.by_key.values() if snapshot.cluster == cluster]
        return {
            snapshot.consumer_group: snapshot
            for snapshot in snapshots
            if snapshot.consumer_group != POLL
        }


def _view(at: float, *names: str, cluster: str = "old", why: str = "") -> SourceView:
    group = GroupView("Stable", 1, {("t", 0): CommittedOffset(int(at))})
    return SourceView(cluster, at, dict.fromkeys(names, group), incomplete_reason=why)


def _writer(kept: Kept) -> CommitSnapshotWriter:
    store: Any = kept
    return CommitSnapshotWriter(store)


def _all(names: Collection[str]) -> Collection[str]:
    return names


def test_an_empty_cluster_under_the_address_removes_nothing() -> None:
    kept = Kept()
    writer = _writer(kept)
    writer.keep(_view(5, "app", "billing"), lambda topic: True, _all)
    for writing in (writer, _writer(kept)):
        writing.keep(_view(9, cluster="new"), lambda topic: True, _all)
        writing.keep(_view(9, "app", cluster="new"), lambda topic: True, _all)
    assert {n: s.at_ms for n, s in kept.groups("old").items()} == {"app": 5000, "billing": 5000}
    commits = read_known_commits(kept.read().commits, "old")
    assert commits is not None and (commits.cluster, commits.at) == ("old", 5.0)
    assert commits.groups["app"].offsets["t", 0].offset == 5
    newest = read_known_commits(kept.read().commits)
    assert newest is not None and (newest.cluster, set(newest.groups)) == ("new", {"app"})
    assert read_known_commits(kept.read().commits, "third") is None


def test_a_restored_cluster_has_the_groups_that_were_kept_of_it_before() -> None:
    kept = Kept()
    pair = ClusterPair("new", "t", "", ("old",))
    store: Any = kept
    writer = CommitSnapshotWriter(store, lambda: [pair])
    writer.keep(_view(5, "app", "lost"), lambda topic: True, _all)
    writer.keep(_view(7, "app", "lost"), lambda topic: True, _all)

    def read(pairs: Collection[ClusterPair] = (pair,)) -> SourceView:
        known = read_known_commits(kept.read().commits, "new", pairs)
        assert known is not None
        return known

    assert read_known_commits(kept.read().commits, "new") is None
    commits = read()
    assert (commits.cluster, commits.at, set(commits.groups)) == ("new", 7.0, {"app", "lost"})
    assert commits.groups["app"].seen_at is None, "the latest poll is the one that has seen it"

    writer.keep(_view(9, "app", cluster="new"), lambda topic: True, _all)
    commits = read()
    assert (commits.at, commits.groups["app"].offsets["t", 0].offset) == (9.0, 9)
    assert commits.groups["app"].seen_at is None and commits.groups["lost"].seen_at == 7.0
    assert set(read(()).groups) == {"app"}

    writer.keep(_view(11, cluster="new"), lambda topic: True, _all)
    assert set(read().groups) == {"lost"}, "what is gone does not come back from before"


def test_a_group_that_is_not_listed_is_kept_with_its_age_unless_it_is_gone() -> None:
    kept = Kept()
    writer = _writer(kept)
    writer.keep(_view(5, "app", "hidden", "gone"), lambda topic: True, _all)
    writer.keep(_view(8, "app", "hidden", "gone"), lambda topic: True, _all)
    asked: list[Collection[str]] = []

    def find_gone(names: Collection[str]) -> Collection[str]:
        asked.append(sorted(names))
        return {"gone"}

    for at in (11, 14):
        writer.keep(_view(at, "app"), lambda topic: True, find_gone)
    assert asked == [["gone", "hidden"], ["hidden"]]
    assert set(kept.groups("old")) == {"app", "hidden"}
    commits = read_known_commits(kept.read().commits, "old")
    assert commits is not None and commits.at == 14.0
    assert (commits.groups["app"].seen_at, commits.groups["hidden"].seen_at) == (None, 8.0)
    writer.keep(_view(17, "app", "hidden"), lambda topic: True, find_gone)
    assert kept.groups("old")["hidden"].state == "Stable"


def test_an_incomplete_listing_asks_for_nothing_and_removes_nothing() -> None:
    kept = Kept()
    writer = _writer(kept)
    writer.keep(_view(5, "app", "other"), lambda topic: True, _all)

    def never(names: Collection[str]) -> Collection[str]:
        raise AssertionError(names)

    writer.keep(_view(8, "app", why="broker 2 did not answer"), lambda topic: True, never)
    assert kept.groups("old")["other"].state == UNLISTED


def test_a_group_without_commits_any_more_is_removed() -> None:
    kept = Kept()
    writer = _writer(kept)
    writer.keep(_view(5, "app"), lambda topic: True)
    emptied = SourceView("old", 8, {"app": GroupView("Empty")})
    writer.keep(emptied, lambda topic: True)
    assert kept.groups("old") == {}


def test_records_of_an_earlier_release_are_replaced() -> None:
    offsets = {("t", 0): CommittedOffset(1)}
    earlier = [
        CommitSnapshot(name, "old", 1000, "Stable", offsets, names_cluster=False)
        for name in ("app", "gone")
    ]
    kept = Kept(*earlier)
    writer = _writer(kept)
    writer.keep(_view(5, "app"), lambda topic: True, _all)
    assert list(kept.groups("old")) == ["app"]
    assert {key.cluster for key in kept.by_key} == {"old"}


def test_a_cluster_without_an_id_keeps_its_commits_as_well() -> None:
    kept = Kept()
    writer = _writer(kept)
    for at in (5, 8):
        writer.keep(_view(at, "app", cluster=""), lambda topic: True, _all)
    assert kept.groups("")["app"].at_ms == 8000


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["2.5", "3.9", "4-tv2"])
def test_a_group_is_asked_for_by_itself(brokers: Brokers, kind: str, tmp_path: Any) -> None:
    (node,) = brokers(kind)
    file = tmp_path / "p.yaml"
    file.write_text(
        f"""name: p
source: {{kafka: {{common: {{bootstrap.servers: "{node.bootstrap}"}}}}}}
target: {{kafka: {{common: {{bootstrap.servers: "{node.bootstrap}"}}}}}}
groups: {{consumerGroups: "kept.*"}}
replication: [{{source: {{topic: [t]}}}}, {{sink: {{topic: source, partition: source}}}}]
"""
    )
    reader = SourceClusterReader(load([file]).config)
    names = {stem: unique_name(stem) for stem in ("kept", "kept-gone", "other")}
    topic = create_topic(node)
    for name in names.values():
        commit_offsets(node, name, {(topic, 0): 0})
    client = admin(node)  # its futures end with it
    client.delete_consumer_groups([names["kept-gone"]])[names["kept-gone"]].result(TIMEOUT)
    try:
        gone = reader.find_gone(list(names.values()))
    finally:
        reader.close()
    assert gone == {names["kept-gone"], names["other"]}, "one is gone, one is not selected"
