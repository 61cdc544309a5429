"""What earlier runs of a pipeline left on the target, and what it says of a missing position.

A source partition without a position is a new one, unless something else on the target says that
the pipeline has copied it: then its position is *lost*, and copying it from its start would copy
every record a second time. Nothing is decided as long as the commit topic is whole
(``Run.lost_term``): a position that it does not have was never written, or was removed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from k2ktui.engine.records.cleared import NOTHING_CLEARED, ClearedTerms
from k2ktui.engine.records.run_record import Run, has_been_cut
from k2ktui.engine.records.state import SourcePartition


class Trace(StrEnum):
    """A kind of evidence that a pipeline has run."""

    RUNS = "run records"
    MAPPINGS = "offset mappings"
    HEARTBEATS = "heartbeats"
    WRITTEN = "written commits"
    DRILLS = "drills"
    OWNERS = "owners of slots"
    TRANSACTIONS = "transactional ids"


@dataclass(frozen=True, slots=True)
class MappedUpTo:
    """The newest mapping of a source partition: its term, and the position that it led to."""

    term: int
    end: int


@dataclass(frozen=True, slots=True)
class LostPosition:
    """A source partition that was copied, as ``trace`` says, and has no position.

    Attributes:
        source: the partition.
        trace: the kind of evidence.
        term: of the run that left it; 0 if the evidence has no term.
        end: position that the newest mapping led to; None without one.
    """

    source: SourcePartition
    trace: Trace
    term: int
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is left on the target of the runs of one commit group.

    Attributes:
        mapped: the newest mapping of each source partition.
        terms: the highest term that each kind of evidence names; 0 for a kind without terms.
        sources: id of the source cluster of runs, by their term; those of earlier releases are
            missing.
        cleared: what operators have removed.
        unread: control topics that the principal may not read, with the reason.
    """

    mapped: Mapping[SourcePartition, MappedUpTo] = field(
        default_factory=lambda: MappingProxyType({})
    )
    terms: Mapping[Trace, int] = field(default_factory=lambda: MappingProxyType({}))
    sources: Mapping[int, str] = field(default_factory=lambda: MappingProxyType({}))
    cleared: ClearedTerms = NOTHING_CLEARED
    unread: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def term(self) -> int:
        """The highest term of any run that has left something, whatever it copied.

        The next term must be above it: mappings of a higher term would count before those of the
        next run.
        """
        cleared = max((record.term for record in self.cleared.all), default=0)
        by_partition = (t for record in self.cleared.all for t in record.partitions.values())
        return max([cleared, *by_partition, *self.terms.values()])

    def traces(self, sources: Collection[str] = ()) -> Mapping[Trace, int]:
        """Return the evidence that the pipeline has run with one of these source clusters.

        Args:
            sources: every id that the source cluster has had; empty if it is not known.

        Returns:
            The highest term of each kind. What was left before the pipeline was cleared as a whole
            does not count, nor what runs with another source cluster left.
        """
        void = self.cleared.whole
        return {
            trace: term
            for trace, term in self.terms.items()
            if (term > void if term else not void) and not self._is_foreign(term, sources)
        }

    def lost_term(self, sources: Collection[str] = ()) -> int:
        """Return the term up to which positions were lost if the commit topic has no run record.

        It is 0 if nothing says that the pipeline has run: this is its first start.

        Args:
            sources: as for :meth:`traces`.
        """
        traces = self.traces(sources)
        return max(1, *traces.values()) if traces else 0

    def find_lost(
        self,
        missing: Mapping[SourcePartition, bool],
        lost_term: int,
        sources: Collection[str] = (),
    ) -> dict[SourcePartition, LostPosition]:
        """Return which partitions without a position were copied by earlier runs.

        Args:
            missing: the partitions without a position, and whether a target partition of theirs
                has ever held a record.
            lost_term: positions of this term and earlier ones may be lost (``Run.lost_term``); 0 if
                none is.
            sources: as for :meth:`traces`.
        """
        lost: dict[SourcePartition, LostPosition] = {}
        if not lost_term:
            return lost
        traces = self.traces(sources)
        for source, has_records in missing.items():
            void = self.cleared.of(source)
            mapped = self.mapped.get(source)
            if mapped is not None and mapped.term > void:
                if not self._is_foreign(mapped.term, sources):
                    lost[source] = LostPosition(source, Trace.MAPPINGS, mapped.term, mapped.end)
            elif mapped is None and has_records and lost_term > void:
                # Its mappings may have expired, and what else is left names no source partition.
                trace = max(traces, key=lambda t: (traces[t], t), default=Trace.RUNS)
                lost[source] = LostPosition(source, trace, traces.get(trace, lost_term))
        return lost

    def _is_foreign(self, term: int, sources: Collection[str]) -> bool:
        """Return whether the run of a term is known to have copied from another source cluster.

        The cluster changes only if the pipeline is cleared, or if a restored one is accepted: the
        next later run that is known says it.
        """
        if not sources or not self.sources:
            return False
        # What has no term was left by the last run that is known.
        later = [other for other in self.sources if term and other >= term]
        named = self.sources[min(later) if later else max(self.sources)]
        return bool(named) and named not in sources


NO_EVIDENCE = Evidence()


def find_lost_term(
    run: Run,
    starts: Mapping[int, int],
    read_evidence: Callable[[], Evidence],
    sources: Collection[str] = (),
) -> int:
    """Return the term up to which a commit topic has lost positions of a pipeline; 0 if none is.

    Args:
        run: the newest run record of the pipeline in it; of term 0 without one.
        starts: the log start offset of each of its partitions.
        read_evidence: called only without a run record.
        sources: as for :meth:`Evidence.traces`.
    """
    if run.term == 0:
        return read_evidence().lost_term(sources)
    return max(run.term, run.lost_term) if has_been_cut(run, starts) else run.lost_term
