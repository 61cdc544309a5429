"""What a query asks for, by the options of Spark's reader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from k2ktui.errors import ConfigError
from k2ktui.tables.columns import CONTENTS, TABLES, Columns
from k2ktui.text import safe_text

if TYPE_CHECKING:
    from k2ktui.sync.flow import Flow

# Source offsets of a task of ``records``: some seconds of reading.
_TASK_OFFSETS = 100_000
_TABLE, _FILE, _CONTENTS, _UNLOCK, _OFFSETS = "path", "file", "contents", "unlock", "taskoffsets"
_TOPIC, _PARTITION, _PUSH = "topic", "partition", "pushfilters"
_OPTIONS = frozenset({_TABLE, _FILE, _CONTENTS, _UNLOCK, _OFFSETS, _TOPIC, _PARTITION, _PUSH})
# The greatest number of a partition in Kafka's protocol.
_MOST_PARTITION = (1 << 31) - 1
_UNCHANGED = "Nothing was read."


@dataclass(frozen=True, slots=True)
class Query:
    """A table, and how it is read.

    Attributes:
        table: its name.
        file: path of the pipeline's file, where the driver is.
        contents: whether ``records`` has keys, values and headers.
        unlock: whether contents are shown although the environment is production.
        push_filters: whether filters are applied before anything is read.
        task_offsets: source offsets that a task of ``records`` reads.
        topic: the source topic whose rows are read; "" for all.
        partition: the source partition whose rows are read; None for all.
    """

    table: str
    file: str
    contents: bool = False
    unlock: bool = False
    push_filters: bool = False
    task_offsets: int = _TASK_OFFSETS
    topic: str = ""
    partition: int | None = None

    def wants(self, topic: str | None, partition: int | None) -> bool:
        """Return whether rows of a source topic and partition are read; None is null."""
        return self.topic in ("", topic) and self.partition in (None, partition)

    @property
    def columns(self) -> Columns:
        """The table's columns."""
        return {**TABLES[self.table], **(CONTENTS if self.contents else {})}

    def open_flow(self) -> Flow:
        """Load the pipeline's file; the result contains secrets and must not reach executors.

        Raises:
            ConfigError: all errors in the file.
            Refused: contents of records are asked for, and may not be shown.
        """
        # Imported late: executors have no need of it, and not all of its packages.
        from k2ktui.engine.access import access, require_shown
        from k2ktui.mm2.flow_files import read_pipeline_flow

        flow, _ = read_pipeline_flow((self.file,))
        config = flow.config
        if self.contents:
            may = access(
                configured=config.read_only, environment=config.environment, unlocked=self.unlock
            )
            require_shown(may, enabled=config.console.show_records)
        return flow


def read_query(options: Mapping[str, str]) -> Query:
    """Return what options ask for.

    Raises:
        ConfigError: there is no such table or option, or the file is missing.
    """
    values = {name.lower(): text for name, text in options.items()}
    table, file = values.get(_TABLE, ""), values.get(_FILE, "")
    if table not in TABLES:
        raise ConfigError(
            f"there is no table {safe_text(table)!r}",
            unchanged=_UNCHANGED,
            hint=f'.load("ranges"), or another of {", ".join(TABLES)}.',
        )
    if not file:
        raise ConfigError(
            "no pipeline is named", unchanged=_UNCHANGED, hint='.option("file", "pipeline.yaml")'
        )
    unknown = sorted(values.keys() - _OPTIONS)
    if unknown:
        raise ConfigError(
            f"unknown options: {', '.join(safe_text(name) for name in unknown)}",
            unchanged=_UNCHANGED,
            hint="See docs/tables.md#options.",
        )
    if table != "records" and (alone := sorted(values.keys() & {_CONTENTS, _UNLOCK, _OFFSETS})):
        raise ConfigError(f"only the table records has {', '.join(alone)}", unchanged=_UNCHANGED)
    if table == "runs" and (alone := sorted(values.keys() & {_TOPIC, _PARTITION, _PUSH})):
        raise ConfigError(
            f"the table runs has no topics and partitions, and so no {', '.join(alone)}",
            unchanged=_UNCHANGED,
        )
    if values.get(_TOPIC) == "":
        raise ConfigError("topic is the name of a source topic", unchanged=_UNCHANGED)
    partition = values.get(_PARTITION)
    return Query(
        table,
        file,
        contents=_is_true(values, _CONTENTS),
        unlock=_is_true(values, _UNLOCK),
        push_filters=_is_true(values, _PUSH),
        task_offsets=_number(values, _OFFSETS, _TASK_OFFSETS),
        topic=values.get(_TOPIC, ""),
        partition=None if partition is None else _partition(partition),
    )


def _is_true(values: Mapping[str, str], name: str) -> bool:
    text = values.get(name, "false").lower()
    if text not in ("true", "false"):
        raise ConfigError(f"{name} is true or false, not {safe_text(text)!r}", unchanged=_UNCHANGED)
    return text == "true"


def _number(values: Mapping[str, str], name: str, default: int) -> int:
    text = values.get(name, str(default))
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 1 << 40):
        raise ConfigError(f"{name} is a number from 1 on", unchanged=_UNCHANGED)
    return int(text)


def _partition(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= _MOST_PARTITION):
        raise ConfigError(
            f"partition is the number of a partition, not {safe_text(text)!r}", unchanged=_UNCHANGED
        )
    return int(text)
