"""Topics that drills moved to the target: forward operations write none of their offsets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.moves.choice import RowKey
from k2ktui.engine.moves.groups import describe_move
from k2ktui.engine.name_pattern import NamePattern
from k2ktui.engine.records.moved_topic import MovedTopic, MovedTopics
from k2ktui.errors import Refused
from k2ktui.kafka.clients import Cluster, source_cluster
from k2ktui.sync.flow import flow_of
from k2ktui.sync.mapping.source import NoPipelineFound, NothingCopied
from k2ktui.text import counted, list_names, safe_text

WAY_BACK = (
    "Its clients are on the target: set their offsets there. To copy the topic again: k2ktui drill "
    "failback --topics, or k2ktui drill release --topics if nothing uses the target's."
)
_NAMED = 10


def read_moved_targets(config: PipelineConfig, target: Cluster) -> dict[str, MovedTopic]:
    """Return what was moved, by target topic; reads the commit topic once.

    Raises:
        ConnectionFailed, TimedOut: the target did not answer.
    """
    try:
        copier = flow_of(config).read_copier(source_cluster(config), target)
    except (NothingCopied, NoPipelineFound):
        return {}
    moved = copier.find_moved()
    return {
        name: move
        for at, position in copier.positions.items()
        if (move := moved.get(at.topic)) is not None
        for name in position.target_topics
    }


def find_left_alone(
    rows: Iterable[RowKey], moved: Mapping[str, MovedTopic], drill: str = ""
) -> dict[RowKey, str]:
    """Return the rows of topics that were moved, by another drill, with the reason.

    Args:
        rows: rows of the target.
        moved: what was moved, by target topic.
        drill: the drill that writes them; "" for none.
    """
    return {
        row: f"its topic was {describe_move(move)}"
        for row in rows
        if (move := moved.get(row[1])) is not None and move.drill != drill
    }


def refuse_moved(topic: object, names: Collection[str], moved: MovedTopics) -> None:
    """Refuse a pattern of topics that matches moved ones only.

    Args:
        topic: the pattern; another predicate is accepted.
        names: the topics to choose from.
        moved: the moved topics.

    Raises:
        Refused: each topic that it matches was moved.
    """
    if not isinstance(topic, NamePattern):
        return
    chosen = sorted(filter(topic, names))
    moves = [move for name in chosen if (move := moved.get(name)) is not None]
    if not moves or len(moves) < len(chosen):
        return
    shown = list_names([f"{move.topic}: {describe_move(move)}" for move in moves], _NAMED)
    raise Refused(
        f"{topic.option} {safe_text(topic.text)}: {shown}",
        unchanged="Nothing was changed.",
        hint=WAY_BACK,
    )


def left_out_note(moves: Collection[MovedTopic]) -> list[str]:
    """Return the note about commits of groups that are left out; empty if there is none.

    Args:
        moves: what moved the topic of each of them.
    """
    topics = sorted({f"{move.topic} (drill {move.drill})" for move in moves})
    if not topics:
        return []
    return [
        f"left out: {counted(len(moves), 'committed offset')} of "
        f"{counted(len(topics), 'topic')} moved to the target: {list_names(topics, _NAMED)}"
    ]
