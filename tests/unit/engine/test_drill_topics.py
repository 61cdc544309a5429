"""Which topics a drill over some topics moves, and what its record says."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.drill.report import report_json, report_markdown, summarize
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.format import report_digest
from k2ktui.engine.drill.model import (
    PHASES,
    Change,
    ChangeKind,
    ChangeStatus,
    Drill,
    DrillFigures,
    DrillOptions,
    DrillStatus,
    Fence,
    PhaseStatus,
    find_last_rehearsal,
    new_phases,
    phases_of,
)
from k2ktui.engine.drill.pair_state import (
    PairPhase,
    fences_pipeline,
    find_displaced,
    find_fence,
    find_opened,
    find_pair_state,
)
from k2ktui.engine.drill.rehearsals import sum_up_rehearsal
from k2ktui.engine.drill.steps import describe_phase_of, end_phase, turn_into_disaster
from k2ktui.engine.drill.topics import (
    Reading,
    choose_topics,
    describe_begin,
    find_shared_groups,
    judge_reading,
)
from k2ktui.engine.moves.journal import record_key
from k2ktui.engine.moves.journal_format import read_state_value, state_value
from k2ktui.engine.name_pattern import NamePattern
from k2ktui.engine.records.moved_topic import MovedTopic, MovedTopics
from k2ktui.engine.records.state import MalformedRecord
from k2ktui.errors import ConfigError, Refused
from k2ktui.present.drills import describe_task
from tests.support.drill.made_drills import new_drill

SAME = {name: (name,) for name in ("orders", "payments", "stock")}
letters = st.sampled_from("abcdef")


def pattern(text: str) -> NamePattern:
    return NamePattern("--topics", text, re.compile(text))


def moved(*topics: str) -> MovedTopics:
    return MovedTopics(MovedTopic(topic, topic, "d1", 1, "ann@a") for topic in topics)


def partial(kind: DrillKind = DrillKind.PLANNED, **fields: object) -> Drill:
    topics = ("orders", "payments")
    drill = Drill(
        id="20260101-000000-ab",
        kind=kind,
        pipeline="shop",
        source_cluster="s",
        target_cluster="t",
        version="1",
        started_ms=1_000,
        started_by="ann@bastion",
        phases=new_phases(kind, topics),
        topics=topics,
        options=DrillOptions(topics="orders|payments"),
    )
    return replace(drill, **fields)  # type: ignore[arg-type]


def test_the_topics_that_match_as_a_whole_are_chosen() -> None:
    choice = choose_topics(pattern("order.*|pay"), SAME)
    assert choice.topics == ("orders",)
    assert (choice.targets, choice.others) == ({"orders": "orders"}, 2)


def test_a_pattern_without_a_match_and_one_that_matches_all_say_so() -> None:
    with pytest.raises(ConfigError, match=r"no topic matches order; .*nearest: orders"):
        choose_topics(pattern("order"), SAME)
    with pytest.raises(ConfigError, match=r"matches all of the pipeline's topics \(3\)") as all_:
        choose_topics(pattern(".*"), SAME)
    assert "the whole pipeline is then moved" in all_.value.hint


def test_topics_that_have_moved_are_refused_with_their_drill_and_not_counted() -> None:
    with pytest.raises(Refused, match=r"1 topic moved already: orders \(drill d1\)"):
        choose_topics(pattern("orders|stock"), SAME, moved("orders"))
    # Not the advice to leave out --topics: that would move it again.
    with pytest.raises(Refused, match=r"1 topic moved already: orders \(drill d1\)"):
        choose_topics(pattern(".*"), SAME, moved("orders"))
    # The last topics of a pipeline: without --topics, the others would be moved again.
    choice = choose_topics(pattern("payments|stock"), SAME, moved("orders"))
    assert (choice.topics, choice.others) == (("payments", "stock"), 0)


def test_all_topics_that_are_copied_into_one_move_together() -> None:
    routes = {"eu": ("all",), "us": ("all",), "stock": ("stock",)}
    with pytest.raises(Refused, match=r"eu and us are copied into all, and .* matches only eu"):
        choose_topics(pattern("eu"), routes)
    assert choose_topics(pattern("eu|us"), routes).topics == ("eu", "us")


@given(
    routes=st.dictionaries(letters, st.tuples(st.sampled_from("xyz")), min_size=2),
    asked=st.sets(letters, min_size=1),
    gone=st.sets(letters),
)
def test_a_choice_never_splits_a_target_nor_takes_a_moved_topic(
    routes: dict[str, tuple[str]], asked: set[str], gone: set[str]
) -> None:
    try:
        choice = choose_topics(pattern("|".join(sorted(asked))), routes, moved(*gone))
    except (ConfigError, Refused):
        return
    assert set(choice.topics) == asked & routes.keys() and not set(choice.topics) & gone
    into = {routes[name] for name in choice.topics}
    assert all(routes[name] not in into for name in routes.keys() - set(choice.topics))
    assert choice.others == len(routes.keys() - set(choice.topics) - gone)


def test_groups_that_read_others_too_are_named_before_it_begins() -> None:
    read = {"billing": ("orders", "stock"), "search": ("orders",), "audit": ("stock",)}
    shared = find_shared_groups(read, ("orders",))
    assert shared == {"billing": ("stock",)}
    choice = choose_topics(pattern("orders"), SAME)
    text = "\n".join(describe_begin(choice, ["search", "billing"], shared, ["search"], moves=True))
    assert text.startswith("1 topic: orders. The pipeline goes on with 2 other topics.")
    assert "2 groups of these topics: billing, search." in text
    assert "the other topics stop for seconds" in text
    assert "Groups that read other topics, too: billing (also stock)" in text
    assert "Groups that run on the target already: search: stop them there" in text
    shown = "\n".join(describe_begin(choice, ["billing"], shared, ["search"], moves=False))
    assert "stop" not in shown and "billing (also stock)." in shown
    last = choose_topics(pattern("payments|stock"), SAME, moved("orders"))
    line, groups = describe_begin(last, [], {}, [], moves=True)
    assert groups == "No group has committed on these topics."
    assert line == "2 topics: payments, stock. No other topic of the pipeline is left."


def test_only_their_producers_and_consumers_are_to_be_stopped() -> None:
    """An operator who stops all applications because of one topic stops too many."""
    drill = replace(new_drill(DrillKind.PLANNED), topics=("orders",))
    drill = replace(drill, phases=new_phases(DrillKind.PLANNED, ("orders",)))
    tasks = {}
    for record in drill.phases:
        tasks[record.phase] = describe_task(drill)
        drill = end_phase(drill, record.phase, PhaseStatus.DONE, 0, "")
    for phase in (DrillPhase.FENCE_PRODUCERS, DrillPhase.STOP_CONSUMERS, DrillPhase.WATCH_CLIENTS):
        assert "of orders on the" in tasks[phase], phase
        assert "of the chosen topics" in describe_phase_of(drill, phase) or "let them go on" in (
            describe_phase_of(drill, phase)
        )
    whole = new_drill(DrillKind.PLANNED)
    assert "chosen" not in describe_phase_of(whole, DrillPhase.STOP_CONSUMERS)
    fenced = replace(drill, options=replace(drill.options, fence=Fence.ACL))
    assert "Denies Write" in describe_phase_of(fenced, DrillPhase.FENCE_PRODUCERS)


@pytest.mark.parametrize(
    ("members", "state", "reading"),
    [
        ([], "Empty", Reading.NO),
        ([], "PreparingRebalance", Reading.JOINING),
        ([({"orders", "stock"}, "")], "Stable", Reading.YES),
        ([({"stock"}, ""), ({"clicks"}, "")], "Stable", Reading.NO),
        ([({"stock"}, ""), (None, "")], "Stable", Reading.UNKNOWN),
        ([({"stock"}, ""), (None, "")], "CompletingRebalance", Reading.JOINING),
        ([(None, ""), ({"orders"}, "")], "Stable", Reading.YES),
        ([({"stock"}, "ord.*")], "Stable", Reading.YES),
        ([({"stock"}, "sto.*")], "Stable", Reading.NO),
        ([({"stock"}, "(")], "Stable", Reading.UNKNOWN),
    ],
)
def test_whether_a_group_reads_topics_is_judged_by_all_of_its_members(
    members: list[tuple[set[str] | None, str]], state: str, reading: Reading
) -> None:
    empty, stable = state == "Empty", state == "Stable"
    assert judge_reading(members, ("orders",), is_empty=empty, is_stable=stable) is reading


@pytest.mark.parametrize("kind", list(DrillKind))
def test_a_drill_over_some_topics_never_fences_the_pipeline(kind: DrillKind) -> None:
    phases = phases_of(kind, ("orders",))
    assert DrillPhase.FENCE_REPLICATOR not in phases
    assert (DrillPhase.MOVE_TOPICS in phases) is (kind is not DrillKind.REHEARSE)
    assert len(phases) == len(PHASES[kind])
    assert phases_of(kind) == PHASES[kind]


def test_its_record_is_read_as_it_was_written_and_others_stay_as_they_were() -> None:
    drill = partial()
    again = read_state_value(record_key(drill), state_value(drill))
    assert again == drill
    assert isinstance(again, Drill) and report_digest(again) == report_digest(drill)
    phases = new_phases(drill.kind)
    whole = replace(drill, topics=(), options=DrillOptions(), phases=phases)
    assert b"topics" not in state_value(whole)


def test_a_record_with_a_name_that_no_topic_can_have_is_refused() -> None:
    drill = partial(topics=("orders", "a b"))
    with pytest.raises(MalformedRecord, match="no topic can have"):
        read_state_value(record_key(drill), state_value(drill))


def test_the_pair_is_where_it_was() -> None:
    change = Change(DrillPhase.MOVE_TOPICS, ChangeKind.MOVED_TOPICS, "move", "", "", "")
    made = replace(change, status=ChangeStatus.MADE)
    opened = partial(
        figures=DrillFigures(opened_ms=5), status=DrillStatus.DONE, ended_ms=9, changes=(made,)
    )
    for drill in (partial(), opened):
        assert not fences_pipeline(drill)
        assert find_opened([drill]) is None and find_fence([drill]) is None
        state = find_pair_state([drill])
        assert (state.phase, state.moved, state.fenced_by) == (PairPhase.REPLICATING, False, "")
    # Its moves are in force: newer drills do not displace it.
    assert find_displaced([opened], 0) == []
    released = replace(opened, changes=(replace(made, status=ChangeStatus.UNDONE),))
    assert find_displaced([released], 0) == [released]


def test_a_rehearsal_of_some_topics_is_no_point_of_the_trend() -> None:
    drill = partial(DrillKind.REHEARSE, status=DrillStatus.DONE, ended_ms=9)
    assert find_last_rehearsal([drill]) is None and sum_up_rehearsal(drill) is None
    assert find_last_rehearsal([replace(drill, topics=())]) is not None


def test_it_stays_one_over_these_topics_without_its_source() -> None:
    drill = turn_into_disaster(partial())
    assert tuple(record.phase for record in drill.phases) == phases_of(
        DrillKind.DISASTER, drill.topics
    )


def test_the_report_names_the_topics() -> None:
    drill = partial(status=DrillStatus.DONE, ended_ms=9, figures=DrillFigures(topics_left=1))
    assert summarize(drill)[:2] == [
        "The planned drill of 2 topics of shop succeeded.",
        "Topics: orders, payments; 1 topic of the pipeline not moved",
    ]
    assert report_json(drill)["topics"] == ("orders", "payments")
    assert "Topics: orders, payments" in "\n".join(report_markdown(drill).splitlines()[:10])
    last = replace(drill, figures=DrillFigures(topics_left=0))
    assert "every topic of the pipeline has moved: it can be retired" in summarize(last)[1]
