"""What a pipeline changes in the records that it copies after a takeover from MirrorMaker 2."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from k2ktui.config.model import PipelineConfig
from k2ktui.replication.copying.slot_task import CopyPath
from k2ktui.replication.topics.naming import target_names
from k2ktui.replication.topics.routing import APPEND_TIME, choose_path
from k2ktui.text import safe_text


def change_notes(
    config: PipelineConfig, topics: Iterable[str], append_time: Collection[str]
) -> list[str]:
    """Return a note for each source topic whose records the pipeline changes.

    Args:
        config: the pipeline that takes over.
        topics: source topics with copies on the target.
        append_time: target topics with LogAppendTime.
    """
    notes = []
    for topic in sorted(set(topics)):
        (target,) = target_names(config, topic)
        times = APPEND_TIME if target in append_time else ""
        choice = choose_path(config, times, topic=topic)
        if choice.path is CopyPath.RECORD:
            notes.append(
                f"{safe_text(topic)}: the target keeps the records before these positions as "
                "MirrorMaker 2 copied them, and this pipeline changes those that follow: "
                f"{choice.reason}"
            )
    return notes
