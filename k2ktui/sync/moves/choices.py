"""Rows of a plan that an operator sets: ``GROUP TOPIC:PARTITION=VALUE`` as text, and its times."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from confluent_kafka.admin import OffsetSpec

from k2ktui.config.model import PipelineConfig
from k2ktui.config.scalars import parse_instant
from k2ktui.engine.moves.choice import RowKey, RowValue, ValueKind
from k2ktui.engine.moves.positions_text import LARGEST_OFFSET, LARGEST_PARTITION, is_topic_name
from k2ktui.errors import ConfigError
from k2ktui.kafka.clients import source_cluster, target_cluster
from k2ktui.text import safe_text

VALUES = "an offset, an ISO-8601 time, earliest, latest, +N, -N or leave-out"
# A topic has no space, and a consumer group may: the last one separates them.
_ROW = re.compile(r"(?P<group>.*) (?P<topic>[^ :]+):(?P<partition>[0-9]+)=(?P<value>.*)", re.DOTALL)
_WORDS = {kind.value: kind for kind in (ValueKind.EARLIEST, ValueKind.LATEST, ValueKind.LEAVE_OUT)}
_SHIFT = re.compile(r"[+-][0-9]{1,19}")
_SHOWN = 200


def parse_choices(words: Iterable[str]) -> dict[RowKey, RowValue]:
    """Parse ``GROUP TOPIC:PARTITION=VALUE`` words; topic and partition are the target's.

    Raises:
        ConfigError: lists every word that is invalid, or sets a row again, with the reason.
    """
    choices: dict[RowKey, RowValue] = {}
    wrong = []
    for word in words:
        try:
            key, value = _parse_row(word)
            if key in choices:
                raise ValueError("the row is set twice")
            choices[key] = value
        except ValueError as error:
            wrong.append(f"{safe_text(word, _SHOWN)}: {error}")
    _refuse(wrong, f"Write each as 'GROUP TOPIC:PARTITION=VALUE' with {VALUES}.")
    return choices


def make_choices(values: Mapping[RowKey, str | int]) -> dict[RowKey, RowValue]:
    """Return what rows are set to; a number is an offset, a text as for :func:`parse_choices`.

    Raises:
        ConfigError: lists every value that is invalid, with the reason.
    """
    choices: dict[RowKey, RowValue] = {}
    wrong = []
    for (group, topic, partition), value in values.items():
        try:
            if isinstance(value, int) and value < 0:
                raise ValueError("an offset is 0 or more; a text such as '-5' shifts")
            choices[group, topic, partition] = parse_value(str(value))
        except ValueError as error:
            row = f"{group} {topic}:{partition}={value}"
            wrong.append(f"{safe_text(row, _SHOWN)}: {error}")
    _refuse(wrong, f"Set each row to {VALUES}.")
    return choices


def _refuse(wrong: list[str], hint: str) -> None:
    if wrong:
        raise ConfigError(
            "rows that cannot be set:\n    " + "\n    ".join(wrong),
            unchanged="Nothing was changed.",
            hint=hint,
        )


def _parse_row(word: str) -> tuple[RowKey, RowValue]:
    parts = _ROW.fullmatch(word)
    if parts is None:
        raise ValueError("expected GROUP TOPIC:PARTITION=VALUE")
    topic, partition = parts["topic"], parts["partition"]
    if not is_topic_name(topic):
        raise ValueError("no topic can have this name")
    if len(partition) > 10 or int(partition) > LARGEST_PARTITION:
        raise ValueError(f"partitions are numbers up to {LARGEST_PARTITION}")
    return (parts["group"], topic, int(partition)), parse_value(parts["value"])


def parse_value(text: str) -> RowValue:
    """Parse what a row is set to.

    Raises:
        ValueError: it is none of these values, with the reason.
    """
    text = text.strip()
    if text in _WORDS:
        return RowValue(_WORDS[text], text)
    digits = text.replace(",", "")  # as tables show them
    if _SHIFT.fullmatch(digits):
        return RowValue(ValueKind.SHIFT, text, int(digits))
    if digits.isascii() and digits.isdecimal():
        if len(digits) > len(str(LARGEST_OFFSET)) or int(digits) > LARGEST_OFFSET:
            raise ValueError(f"offsets are numbers up to {LARGEST_OFFSET}")
        return RowValue(ValueKind.OFFSET, text, int(digits))
    try:
        return RowValue(ValueKind.TIME, text, parse_instant(text))
    except (ValueError, OverflowError) as error:
        raise ValueError(f"expected {VALUES}") from error


def choice_text(key: RowKey, text: str) -> str:
    """Return a choice as an operator writes it."""
    group, topic, partition = key
    return f"{group} {topic}:{partition}={text}"


def look_up_times(
    choices: Mapping[RowKey, RowValue], config: PipelineConfig, side: str = "target"
) -> dict[RowKey, RowValue]:
    """Return the choices with times replaced by the offsets of the side's first records then.

    A time after the last record leads to the end of the log.

    Raises:
        ConnectionFailed, TimedOut: the cluster does not answer.
    """
    resolved = dict(choices)
    cluster = source_cluster(config) if side == "source" else target_cluster(config)
    by_time: dict[int, set[tuple[str, int]]] = {}
    for (_, topic, partition), value in choices.items():
        if value.kind is ValueKind.TIME:
            by_time.setdefault(value.number, set()).add((topic, partition))
    try:
        offsets_by_time = {
            at_ms: cluster.offsets(sorted(partitions), OffsetSpec.for_timestamp(max(0, at_ms)))
            for at_ms, partitions in by_time.items()
        }
    finally:
        cluster.disconnect()
    for at_ms, offsets in offsets_by_time.items():
        for key, value in choices.items():
            offset = offsets.get(key[1:]) if value.number == at_ms else None
            if value.kind is ValueKind.TIME and offset is not None:
                kind = ValueKind.LATEST if offset < 0 else ValueKind.OFFSET
                resolved[key] = replace(value, kind=kind, number=max(0, offset))
    return resolved


def lowest_chosen(choices: Mapping[RowKey, RowValue]) -> dict[tuple[str, int], int]:
    """Return from which target offset on mappings are needed to count what choices do."""
    lowest: dict[tuple[str, int], int] = {}
    for (_, topic, partition), value in choices.items():
        if value.kind in (ValueKind.LATEST, ValueKind.LEAVE_OUT):
            continue
        offset = value.number if value.kind is ValueKind.OFFSET else 0
        lowest[topic, partition] = min(offset, lowest.get((topic, partition), offset))
    return lowest
