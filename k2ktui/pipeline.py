"""A pipeline for programs: ``from k2ktui import Pipeline`` (docs/python.md).

What commands and screens call, under names that stay. A method reads or writes as the command of
its name does, prints nothing and asks nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Literal, Self

from k2ktui.config.inputs import STDIN
from k2ktui.engine.access import Access, access, require
from k2ktui.engine.mapping.translate import TranslatedOffset, list_translated
from k2ktui.engine.moves.failover import GroupPositions, make_group_positions
from k2ktui.engine.moves.journal import JournalHeader
from k2ktui.engine.moves.plan import Plan, Rewind
from k2ktui.engine.moves.positions_text import check_positions
from k2ktui.engine.name_pattern import pattern_of
from k2ktui.errors import ConfigError, Refused
from k2ktui.mm2.flow_files import read_flow
from k2ktui.runtime.interpreter import require_assertions
from k2ktui.sync import operations
from k2ktui.sync.drill.pair import read_pair_state
from k2ktui.sync.flow import Flow
from k2ktui.sync.group_lags import read_groups
from k2ktui.sync.moves.apply import Applied, refuse_other_pipeline
from k2ktui.sync.moves.choices import make_choices
from k2ktui.sync.moves.plan_files import read_plan
from k2ktui.sync.moves.plans import plan_options
from k2ktui.sync.moves.snapshot import SnapshotReader
from k2ktui.text import safe_text
from k2ktui.watch.once import PipelineStatus, read_once

_READ_ONLY = Access(False, "the pipeline was opened without write=True")


class Pipeline:
    """A pipeline's clusters, consumer groups and mapping, for a program.

    Open it with :meth:`open`, and close it: best in a ``with`` statement. Every error that a
    program should expect is a :class:`k2ktui.K2kError`; its ``exit_code`` says of which kind.

    Threads may share a pipeline: one call runs at a time, and others wait for it. With asyncio,
    write ``await asyncio.to_thread(pipeline.groups)``. Several pipelines may be open at once.

    Attributes:
        name: name of the pipeline.
        notes: what its files have that deserves attention, such as a property without effect.
    """

    def __init__(
        self, flow: Flow, files: tuple[str, ...], may: Access, notes: tuple[str, ...] = ()
    ) -> None:
        self.name = flow.config.name
        self.notes = notes
        self._flow, self._files, self._may = flow, files, may
        self._lock = Lock()
        self._is_open = True
        self._reader: SnapshotReader | None = None

    @classmethod
    def open(
        cls,
        file: str | PathLike[str],
        *layers: str | PathLike[str],
        write: bool = False,
        unlock: bool = False,
    ) -> Self:
        """Read the files of a pipeline; its clusters are asked only by the methods that need them.

        Args:
            file: the pipeline's file, or one of MirrorMaker 2 (``FILE#A->B`` chooses a flow).
            layers: files whose keys override those of earlier ones.
            write: whether :meth:`apply` and :meth:`undo` may change the target.
            unlock: allow changes although the pipeline's environment is production.

        Raises:
            K2kError: with the exit code ``USAGE``, all errors in the files; ``REFUSED``, the files
                or their environment do not allow changes, or Python leaves assertions out.
        """
        require_assertions()
        files = tuple(os.fspath(layer) for layer in (file, *layers))
        if any(name.strip() == STDIN for layer in files for name in layer.split(",")):
            raise ConfigError(
                "a pipeline is opened from files, not from standard input (-)",
                hint="Write it to a file, and give its name.",
            )
        if unlock and not write:
            raise ConfigError("unlock=True has an effect only with write=True")
        flow, notes = read_flow(files)
        config, may = flow.config, _READ_ONLY
        if write:
            may = access(
                configured=config.read_only, environment=config.environment, unlocked=unlock
            )
            require(may, f"opening pipeline {safe_text(config.name)} with write=True")
        return cls(flow, files, may, notes)

    def close(self) -> None:
        """Disconnect from the clusters, after the call that runs; may be repeated."""
        with self._lock:
            self._is_open = False
            if self._reader is not None:
                self._reader.close()
                self._reader = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if not self._is_open else "writable" if self._may.writable else "read-only"
        return f"<Pipeline {self.name!r}, {state}>"

    def status(self) -> PipelineStatus:
        """Return positions, lag and coverage of each partition, as ``k2ktui status`` shows them.

        If the source does not answer, ``source_down`` says why, and the partitions have what the
        target knows.

        Raises:
            K2kError: the target does not answer, or the pipeline has never run.
        """
        with self._call():
            reading = read_once(self._flow, groups=False, drills=True)
            if reading.groups_error is not None and reading.source_error is None:
                raise reading.groups_error
            return reading.status()

    def groups(self) -> GroupPositions:
        """Return the consumer groups of both clusters, as ``k2ktui groups`` shows them.

        If the source does not answer, ``source_down`` says why, and its commits are those that
        were kept on the target.

        Raises:
            K2kError: the target does not answer, the pipeline has never run, or the source does
                not answer and no commits of it were kept.
        """
        with self._call(), ThreadPoolExecutor(1) as pool:
            pair = pool.submit(read_pair_state, self._flow.config)
            snapshot, logs = read_groups(self._snapshots())
            return make_group_positions(snapshot, pair.result(), logs)

    def translate(self, offsets: Mapping[str, Mapping[int, int]]) -> tuple[TranslatedOffset, ...]:
        """Translate offsets of the source that are kept outside Kafka, as ``k2ktui translate``.

        Each call reads what was copied since the last one; the source is not needed.

        Args:
            offsets: the next offset to read, by topic and partition: ``{"orders": {0: 712}}``.
                Give those of one consumer together: where several source partitions feed one of
                the target's, their translations depend on each other.

        Returns:
            A row for each offset and target partition that it leads to; of a partition that is not
            replicated, one without a translation.

        Raises:
            K2kError: an offset is not possible, the target does not answer, or the pipeline has
                never run.
        """
        return self.translate_each([offsets])[0]

    def translate_each(
        self, consumers: Iterable[Mapping[str, Mapping[int, int]]]
    ) -> list[tuple[TranslatedOffset, ...]]:
        """Translate the offsets of several consumers, as :meth:`translate` those of each.

        The mappings are read once for all of them.

        Raises:
            K2kError: as for :meth:`translate`.
        """
        asked = [check_positions(_places(offsets)) for offsets in consumers]
        with self._call():
            if not any(asked):
                return [() for _ in asked]
            translations = self._snapshots().translate_each(asked)
            return list(map(list_translated, asked, translations))

    def refresh(self) -> None:
        """Read the mappings that were written since the last call.

        The next :meth:`translate` then has less to read; it never needs this to be correct.

        Raises:
            K2kError: the target does not answer, or the pipeline has never run.
        """
        with self._call():
            self._snapshots().read_mappings()

    def plan(
        self,
        group: str | None = None,
        *,
        topic: str | None = None,
        rewind: Literal["never", "follow"] = "never",
        valid_s: float = 900.0,
        choices: Mapping[tuple[str, str, int], str | int] | None = None,
    ) -> Plan:
        """Plan which offsets groups get on the target, as ``k2ktui plan``; changes nothing.

        Args:
            group: regular expression for the whole name of groups; None is all.
            topic: the same for topics of the source.
            rewind: whether to commit a lower offset where the target is ahead of the translation.
            valid_s: seconds for which the plan can be applied.
            choices: what rows are set to instead of the translation, by group, target topic and
                target partition: an offset, or a text as for ``--set``.

        Raises:
            K2kError: a pattern matches nothing, a row cannot be set, or a cluster does not answer.
        """
        if not valid_s >= 0:
            raise ConfigError(f"valid_s: expected 0 seconds or more, found {valid_s}")
        if rewind not in tuple(Rewind):
            raise ConfigError(f"rewind: expected never or follow, found {safe_text(rewind)}")
        options = plan_options(
            self._flow.config,
            rewind=Rewind(rewind),
            valid_s=valid_s,
            group=pattern_of("group", group),
            topic=pattern_of("topic", topic),
            choices=make_choices(choices or {}),
        )
        with self._call():
            return operations.create_plan(self._flow, options, self._files)

    def load_plan(self, file: str | PathLike[str]) -> Plan:
        """Return the plan of a file that ``k2ktui plan -o FILE`` wrote, to be applied.

        It is checked as ``k2ktui apply FILE`` checks it; what has moved since, :meth:`apply` finds.

        Raises:
            K2kError: with the exit code ``USAGE``, the file cannot be read; ``REFUSED``, it is
                damaged, was modified, has expired, belongs to another pipeline, or sets offsets of
                the source, which only a person may.
        """
        path = Path(os.fspath(file))
        if str(path) == STDIN:
            raise ConfigError(
                "a plan is loaded from a file, not from standard input (-)",
                hint="Write it to a file, and give its name.",
            )
        plan = read_plan(path, time.time())
        refuse_other_pipeline(plan.pipeline, self._flow.config)
        if plan.side != "target":
            raise Refused(
                f"plan {plan.id} sets offsets on the source cluster, which a person must confirm",
                unchanged="Nothing was changed.",
                hint="Apply it with k2ktui apply.",
            )
        return plan

    def apply(self, plan: Plan) -> Applied:
        """Commit a plan's offsets on the target, exactly as they are, as ``k2ktui apply``.

        The journal has the offsets before it: :meth:`undo` restores them. A plan with nothing to
        apply leaves no entry, and the result's ``id`` is empty.

        Returns:
            The result of each row; ``complete`` says whether every row was applied.

        Raises:
            K2kError: nothing was written, because changes are not allowed, the plan has expired or
                belongs to another pipeline, or something has moved since; the target did not
                answer (``PARTIAL``: while it was written).
        """
        with self._call():
            require(self._may, "applying a plan")
            if not plan.applied:
                return Applied("", ())
            return operations.apply_plan(self._flow.config, plan, self._files, self._may)

    def journal(self) -> list[JournalHeader]:
        """Return what was changed on the target, the newest first, as ``k2ktui journal``.

        Raises:
            K2kError: the target does not answer, or its state topic may not be read.
        """
        with self._call():
            return operations.read_journal(self._flow.config)

    def undo(self, entry: str, *, skip_moved: bool = False) -> Applied:
        """Restore the offsets that were committed before a journal entry, as ``k2ktui undo``.

        Args:
            entry: id of an entry of :meth:`apply`, :meth:`undo` or ``k2ktui sync``.
            skip_moved: skip groups whose offsets have changed since, instead of refusing.

        Raises:
            K2kError: nothing was written, as for :meth:`apply`; or there is no such entry.
        """
        with self._call():
            config = self._flow.config
            require(self._may, "undoing a journal entry")
            journaled = operations.read_entry(config, entry)
            return operations.undo_entry(
                config, journaled, self._files, self._may, skip_moved=skip_moved
            )

    @contextmanager
    def _call(self) -> Iterator[None]:
        """Wait for the call that runs, and require that the pipeline is open."""
        with self._lock:
            if not self._is_open:
                raise Refused(
                    f"pipeline {safe_text(self.name)} was closed",
                    unchanged="Nothing was done.",
                    hint="Open it again with Pipeline.open.",
                )
            yield

    def _snapshots(self) -> SnapshotReader:
        """Return the reader that keeps connections and mappings from call to call."""
        if self._reader is None:
            self._reader = SnapshotReader(self._flow, for_plans=False, with_choices=True)
        return self._reader


def _places(offsets: object) -> Iterator[tuple[object, object, object]]:
    """Yield the topic, partition and offset of each of a consumer's offsets.

    Raises:
        ConfigError: they are not by topic and partition.
    """
    for topic, partitions in _items(offsets):
        for partition, offset in _items(partitions):
            yield topic, partition, offset


def _items(given: object) -> Iterable[tuple[object, object]]:
    if not isinstance(given, Mapping):
        raise ConfigError(
            f"offsets: expected a mapping, found {safe_text(type(given).__name__)}",
            hint='Give offsets by topic and partition: {"orders": {0: 712}}.',
        )
    return given.items()
