"""Ids that a cluster had before it was restored: aliases, never the cluster of now."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.records.cluster_pair import UNKNOWN_PAIR, ClusterPair, find_ids
from k2ktui.engine.records.state import Run, read_commit_record, run_key, run_value
from k2ktui.engine.strict_json import dump_object

_IDS = st.sampled_from("ABCDEFG")


def _recorded(pair: ClusterPair) -> ClusterPair:
    run = Run(7, 1, pair=pair)
    _, _, record = read_commit_record(run_key("p"), run_value(run))
    assert isinstance(record, Run)
    return record.pair


@given(st.lists(_IDS, min_size=1, max_size=8), st.lists(st.sampled_from("TUV"), max_size=4))
def test_a_chain_of_restores_is_one_cluster(sources: list[str], targets: list[str]) -> None:
    pair = ClusterPair(sources[0], "T", "m")
    for now in sources[1:]:
        pair = _recorded(pair.accept(ClusterPair(now, pair.target, "m")))
    for now in targets:
        pair = _recorded(pair.accept(ClusterPair(pair.source, now, "m")))
    assert pair.source == sources[-1] and pair.target == ("T", *targets)[-1]
    assert pair.sources == set(sources) and pair.targets == {"T", *targets}
    for ids, now in ((pair.source_aliases, pair.source), (pair.target_aliases, pair.target)):
        assert now not in ids and len(set(ids)) == len(ids)
    assert find_ids(sources[0], [pair]) == set(sources)


def test_only_the_latest_id_is_the_cluster_of_now() -> None:
    """The cluster that was restored from may come back: it is another one."""
    pair = ClusterPair("A", "T", "m").accept(ClusterPair("B", "T", "m"))
    assert pair.find_changed(ClusterPair("B", "T")) == ()
    assert pair.find_changed(ClusterPair("A", "T")) == (("source", "B", "A"),)
    assert pair.find_changed(ClusterPair("", "U")) == (("target", "T", "U"),)
    assert UNKNOWN_PAIR.find_changed(ClusterPair("A", "T")) == ()
    back = pair.accept(ClusterPair("A", "T", "m"))
    assert (back.source, back.source_aliases) == ("A", ("B",))


def test_a_new_start_on_another_cluster_has_no_aliases() -> None:
    recorded = ClusterPair("B", "U", "m", ("A",), ("T",))
    assert ClusterPair("B", "U", "m").follow(recorded) == recorded
    assert ClusterPair("C", "U", "m").follow(recorded) == ClusterPair("C", "U", "m", (), ("T",))
    assert ClusterPair("B", "V", "n").follow(recorded) == ClusterPair("B", "V", "n", ("A",))


def test_aliases_of_several_pipelines_join() -> None:
    pairs = [ClusterPair("B", "T", "", ("A",)), ClusterPair("T", "C", "", (), ("B",))]
    assert find_ids("A", pairs) == {"A", "B", "C"} == find_ids("C", pairs)
    assert find_ids("T", pairs) == {"T"} and find_ids("", pairs) == frozenset()
    old = ClusterPair("A", "T")
    assert old.is_same(pairs[0]) and pairs[0].is_same(old)
    assert not old.is_same(ClusterPair("T", "A")) and not UNKNOWN_PAIR.is_same(UNKNOWN_PAIR)


def test_records_of_earlier_releases_have_no_aliases() -> None:
    value = {"v": 1, "term": 1, "slots": 1, "sourceCluster": "A", "targetCluster": "T"}
    _, _, run = read_commit_record(run_key("p"), dump_object(value))
    assert isinstance(run, Run) and run.pair == ClusterPair("A", "T")
    assert b"liases" not in run_value(run), "nor have new ones that nothing was accepted for"
