"""What is left of earlier runs decides which missing positions are lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.moves.journal_format import (
    read_state_key,
    read_state_value,
    state_key,
    state_value,
)
from k2ktui.engine.records.cleared import Cleared, ClearedTerms
from k2ktui.engine.records.evidence import Evidence, MappedUpTo, Trace
from k2ktui.engine.records.state import SourcePartition

A, B = SourcePartition("orders", 0), SourcePartition("orders", 1)
NAMES = st.text(min_size=1, max_size=60)
TERMS = st.integers(1, 1 << 40)
PARTITIONS = st.dictionaries(st.integers(0, 2**31 - 1), TERMS, max_size=5)
OURS, OTHER = "5L6gourcluster", "8Qh2another"


@given(
    st.builds(Cleared, st.just(""), NAMES, st.integers(0, 2**41), TERMS)
    | st.builds(Cleared, NAMES, NAMES, st.integers(0, 2**41), st.just(0), PARTITIONS)
)
def test_what_is_written_is_read(cleared: Cleared) -> None:
    assert read_state_key(state_key("g", cleared.key)) == ("g", cleared.key)
    assert read_state_value(cleared.key, state_value(cleared)) == cleared


def test_the_higher_terms_count() -> None:
    before = Cleared("orders", "ann", 1, partitions={0: 3, 1: 7})
    now = Cleared("orders", "bob", 2, partitions={0: 5})
    assert now.joined(before).partitions == {0: 5, 1: 7}
    terms = ClearedTerms([now.joined(before), Cleared("", "bob", 2, 6)])
    assert (terms.of(A), terms.of(B), terms.of(SourcePartition("new", 0))) == (6, 7, 6)


def test_nothing_is_lost_in_a_topic_that_is_whole() -> None:
    evidence = Evidence({A: MappedUpTo(3, 100)}, {Trace.MAPPINGS: 3})
    assert not evidence.find_lost({A: True}, 0)


def test_a_mapping_says_that_a_partition_was_copied() -> None:
    evidence = Evidence({A: MappedUpTo(3, 100)}, {Trace.MAPPINGS: 3})
    assert evidence.lost_term() == 3 and evidence.term == 3
    lost = evidence.find_lost({A: False, B: False}, 3)
    assert lost.keys() == {A}
    assert (lost[A].trace, lost[A].term, lost[A].end) == (Trace.MAPPINGS, 3, 100)


def test_a_target_partition_that_never_held_a_record_was_not_copied_to() -> None:
    """Mappings expire after a week; heartbeats name no partition."""
    evidence = Evidence(terms={Trace.HEARTBEATS: 4})
    assert evidence.find_lost({A: True, B: False}, 4).keys() == {A}


def test_what_was_cleared_is_new() -> None:
    terms = {Trace.MAPPINGS: 3, Trace.HEARTBEATS: 3, Trace.OWNERS: 0}
    mapped = {A: MappedUpTo(3, 100), B: MappedUpTo(3, 100)}
    one = Evidence(mapped, terms, cleared=ClearedTerms([Cleared("orders", "a", 1, 0, {0: 4})]))
    assert one.find_lost({A: True, B: True}, 3).keys() == {B}
    whole = Evidence(mapped, terms, cleared=ClearedTerms([Cleared("", "a", 1, 4)]))
    assert whole.lost_term() == 0 and not whole.find_lost({A: True, B: True}, 3)
    # What came later counts again, and every term stays used.
    later = Evidence(mapped, {Trace.HEARTBEATS: 6}, cleared=whole.cleared)
    assert later.lost_term() == 6 and later.find_lost({A: True}, 6) == {}
    assert whole.term == 4


def test_evidence_of_another_pair_of_clusters_does_not_count() -> None:
    mapped = {A: MappedUpTo(3, 100)}
    terms = {Trace.MAPPINGS: 3, Trace.HEARTBEATS: 3}
    other = Evidence(mapped, terms, {3: OTHER})
    assert other.lost_term([OURS]) == 0 and other.term == 3
    assert not other.find_lost({A: True}, 3, [OURS])
    ours = Evidence(mapped, terms, {3: OURS})
    assert ours.find_lost({A: True}, 3, [OURS]).keys() == {A}
    # A restored cluster has another id since then; the next later run says whose they are.
    accepted = Evidence(mapped, terms, {2: OTHER, 4: OURS})
    assert accepted.find_lost({A: True}, 4, [OURS]).keys() == {A}
    unknown = Evidence(mapped, terms)  # of an earlier release
    assert unknown.find_lost({A: True}, 3, [OURS]).keys() == {A}


def test_evidence_without_a_term() -> None:
    evidence = Evidence(terms={Trace.TRANSACTIONS: 0})
    assert evidence.lost_term() == 1
    assert evidence.find_lost({A: True, B: False}, 1).keys() == {A}
