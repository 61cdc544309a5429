"""One pipeline, read in parts; the console, ``watch``, ``status`` and ``fleet`` only say when."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import K2kError, TimedOut
from k2ktui.faults import fault
from k2ktui.sync.flow import Flow
from k2ktui.text import safe_message, safe_text
from k2ktui.watch.assemble import Assembler
from k2ktui.watch.facts import Facts, Known
from k2ktui.watch.model import Part, PartName, PipelinePair, View
from k2ktui.watch.readers import Reader

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Last:
    """What was read of a part last, and why the last attempt failed, if it did."""

    facts: Facts | None = None
    error: K2kError | None = None


class PipelineReader:
    """Reads a pipeline's parts, keeps what was read last, and makes views of it.

    Threads may read different parts at once; a part is read by one thread at a time.

    Args:
        readers: the reader of each part.
        assembler: makes the views.
    """

    def __init__(self, readers: Mapping[PartName, Reader], assembler: Assembler) -> None:
        self._readers, self.assembler = readers, assembler
        # Its keys never change: other threads go through it while a part is read.
        self._last = dict.fromkeys(readers, _Last())
        self._failures: dict[PartName, type[Exception]] = {}

    @property
    def parts(self) -> tuple[PartName, ...]:
        """The parts that are read."""
        return tuple(self._readers)

    @property
    def known(self) -> dict[PartName, Facts]:
        """What was read last, of each part that was read."""
        return {name: last.facts for name, last in self._last.items() if last.facts is not None}

    def facts(self, name: PartName) -> Facts | None:
        """Return what was read last of a part; None if nothing was."""
        return self._last[name].facts if name in self._last else None

    def error(self, name: PartName) -> K2kError | None:
        """Return why the last attempt to read a part failed; None if it did not."""
        return self._last[name].error

    def read(self, name: PartName, known: Known | None = None) -> None:
        """Read a part; what was read before stays if it cannot be read.

        Args:
            name: the part.
            known: what is known of the others; by default what was read last.
        """
        try:
            facts = self._readers[name].read(self.known if known is None else known)
        except K2kError as error:
            self.note(name, error)
        else:
            self.note(name, None, facts)

    def try_read(self, name: PartName, known: Known | None = None) -> None:
        """Read a part; an internal error is that of the part, and hides no other."""
        try:
            self.read(name, known)
            self._failures.pop(name, None)
        except Exception as failure:
            # One that comes back with every reading is reported once.
            if self._failures.get(name) is not type(failure):
                self._failures[name] = type(failure)
                self.note(name, fault(failure))

    def note(self, name: PartName, error: K2kError | None, facts: Facts | None = None) -> None:
        """Keep the outcome of an attempt to read a part."""
        last, pipeline = self._last[name], safe_text(self.assembler.pair.pipeline)
        self._last[name] = _Last(facts or last.facts, error)
        if error is None and last.error is not None:
            log.info("%s of %s read again", name, pipeline)
        elif error is not None and (last.error is None or error.message != last.error.message):
            log.info("%s of %s not read: %s", name, pipeline, error.message)
            log.debug("%s: the cause", name, exc_info=error)

    def view(
        self, pending_s: Mapping[PartName, float] | None = None, longest: int | None = None
    ) -> View:
        """Return a view of what was read last.

        Args:
            pending_s: for how long attempts to read parts have been unanswered.
            longest: the most characters of an error; longer ones are cut.
        """
        parts = {}
        for name, last in self._last.items():
            parts[name] = Part(
                None if last.facts is None else last.facts.taken_at,
                "" if last.error is None else safe_message(last.error.message, longest),
                (pending_s or {}).get(name, 0.0),
                isinstance(last.error, TimedOut),
            )
        return self.assembler.view(time.time(), self.known, parts)

    def close(self, *names: PartName) -> None:
        """Close the connections of parts, or of all; the next reading opens them again."""
        for name in names or self.parts:
            self._readers[name].close()


def describe_pair(flow: Flow) -> PipelinePair:
    """Return the identity of a flow for its views."""
    config, mirror = flow.config, flow.is_mirror
    names = config.source.name, config.target.name
    if mirror:  # named after its clusters, A->B
        source, _, target = config.name.partition("->")
        names = source, target
    both = bool(config.bidirectional_mode)
    return PipelinePair(
        *(config.name, config.environment, config.read_only, mirror),
        *names,
        both,
        flow.has_equal_offsets,
    )


def make_assembler(flow: Flow) -> Assembler:
    """Return the assembler of a flow's views."""
    config = flow.config
    return Assembler(
        describe_pair(flow),
        cache(flow.path_of),
        (config.source.bootstrap_servers, config.target.bootstrap_servers),
        cache(partial(_planned_target, config)),
        config.drill.objectives.values,
    )


def _planned_target(config: PipelineConfig, at: SourcePartition) -> tuple[str, int | None]:
    """Return where a partition will go; the name is empty if its topic is refused."""
    from k2ktui.replication.topics.naming import target_names

    partition = None if config.replication.sink.scatters else at.partition
    try:
        return ", ".join(target_names(config, at.topic)), partition
    except K2kError:
        return "", None
