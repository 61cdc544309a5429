"""What the driver reports: progress once per lap, and ongoing problems without repeating them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from time import monotonic

from k2ktui.errors import REFUSALS, K2kError
from k2ktui.replication.copying.slot_task import (
    SkippedRecords,
    SlotResult,
    SlotStats,
    UnknownSchemas,
)
from k2ktui.replication.reports.events import Event, FirstRecord, Note, Progress, SlotLap, Trouble
from k2ktui.replication.reports.stopped import RETRY_S
from k2ktui.text import counted, duration

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 10.0
_LONGEST_PAUSE_S = 600.0
_WORTH_AN_END_S = 10.0
_MOST_TEXTS = 100


class ProgressReporter:
    """Reports the progress of all slots.

    Args:
        report: called with every event.
        began_at: epoch seconds at which the run was requested.
        interval_s: minimum seconds between two progress reports.
    """

    def __init__(
        self, report: Callable[[Event], None], began_at: float, interval_s: float = 0.0
    ) -> None:
        self._report = report
        self._interval_s = interval_s
        self._began_at = began_at
        self._lap = 0
        self._lap_began = monotonic()
        self._ended: set[int] = set()
        self._stats = SlotStats()
        self._pause = 0.0
        self._first_seen = False
        self._ended_at: dict[int, float] = {}
        self.records = 0

    def begin(self) -> None:
        """Start the clock of the first lap."""
        self._lap_began = monotonic()

    def lap_ended(self, slot: int, result: SlotResult | None) -> None:
        """Record and report a slot's result; None if its task was lost."""
        before = self._ended_at.get(slot, 0.0)
        self._report(SlotLap.of(slot, before, result))
        self._ended.add(slot)
        if result is None:
            return
        self._stats = self._stats.plus(result.stats)
        self.records += result.stats.records
        if before:
            self._pause = max(self._pause, result.began_at - before)
        self._ended_at[slot] = result.ended_at
        if result.first_commit_at and result.stats.records and not self._first_seen:
            self._first_seen = True
            self._report(FirstRecord(result.first_commit_at - self._began_at))

    def all_ended(self, running: Collection[int]) -> bool:
        """Return whether every running slot has ended a lap since the last progress report."""
        if monotonic() - self._lap_began < self._interval_s:
            return False
        return bool(self._ended) and self._ended.issuperset(running)

    @property
    def unreported(self) -> bool:
        """Whether records were copied since the last progress report."""
        return bool(self._stats.records)

    def progress(self, *, partitions: int, stopped: int, lag_records: int | None) -> None:
        """Report what was copied since the last progress report."""
        now, stats = monotonic(), self._stats
        self._lap += 1
        self._report(
            Progress(
                lap=self._lap,
                seconds=now - self._lap_began,
                records=stats.records,
                written_bytes=stats.written_bytes,
                rebuilt=stats.rebuilt,
                transactions=stats.transactions,
                commit_s=stats.commit_s,
                cpu_s=stats.cpu_s,
                pause_s=self._pause,
                partitions=partitions,
                stopped=stopped,
                lag_records=lag_records,
            )
        )
        self._stats, self._pause, self._lap_began = SlotStats(), 0.0, now
        self._ended.clear()


@dataclass(slots=True)
class _LastReport:
    pause_s: float
    again_at: float


class ThrottledNotifier:
    """Reports ongoing problems without repeating the same text every few seconds.

    One that lasts is also reported as ``Trouble``, for heartbeats.

    Args:
        report: called with every note.
        clock: monotonic seconds.
    """

    def __init__(
        self, report: Callable[[Event], None], clock: Callable[[], float] = monotonic
    ) -> None:
        self._report = report
        self._clock = clock
        self._began: dict[str, float] = {}
        self._reported: dict[str, dict[str, _LastReport]] = {}
        self._troubles: dict[str, str] = {}

    def report(self, subject: str, text: str, *, always: bool = False, lasts: bool = False) -> bool:
        """Report a problem with a subject, unless the same text was reported recently.

        Each text of a subject has its own interval, so alternating problems are throttled
        separately. ``always`` reports regardless of the interval. ``lasts`` says that the problem
        does not pass by itself, or has lasted already.

        Returns:
            Whether it was reported now.
        """
        now = self._clock()
        began = self._began.setdefault(subject, now)
        if lasts or now - began >= _WORTH_AN_END_S:
            self._tell(subject, f"{subject}: {text}")
        reported = self._reported.setdefault(subject, {})
        last = reported.get(text)
        if last is not None and now < last.again_at and not always:
            return False
        pause = _FIRST_PAUSE_S if last is None else min(2 * last.pause_s, _LONGEST_PAUSE_S)
        reported.pop(text, None)
        reported[text] = _LastReport(pause, now + pause)  # the last one is the newest
        if len(reported) > _MOST_TEXTS:
            # A text with an offset or a time in it is never told again; without a bound, a problem
            # that lasts for weeks would keep them all.
            del reported[next(iter(reported))]
        self._report(Note(f"{subject}: {text}"))
        return True

    def report_error(self, subject: str, error: K2kError, retry_s: float) -> float:
        """Report the error of an attempt; return the seconds until the next one.

        That is ``retry_s``, and ``RETRY_S`` after a refusal, which does not pass by itself.
        """
        is_refusal = isinstance(error, REFUSALS)
        pause_s = RETRY_S if is_refusal else retry_s
        if self.report(subject, error.message, lasts=is_refusal):
            log.debug("%s: trying again in %.1f s, the cause", subject, pause_s, exc_info=error)
        return pause_s

    def over(self, subject: str, *, always: bool = False) -> None:
        """Mark the subject's problem as resolved; report how long it lasted unless it was short.

        ``always`` also reports the end of a short one.
        """
        self._tell(subject, "")
        lasted = self._clock() - self._began.pop(subject, self._clock())
        is_short = lasted < _WORTH_AN_END_S
        if self._reported.pop(subject, None) and (always or not is_short):
            self._report(Note(f"{subject}: recovered after {duration(lasted, tenths=is_short)}"))

    def forget(self, subject: str) -> None:
        """Forget the subject's problem, which no longer matters here, without a report."""
        self._tell(subject, "")
        self._began.pop(subject, None)
        self._reported.pop(subject, None)

    def _tell(self, subject: str, text: str) -> None:
        if self._troubles.get(subject, "") != text:
            self._troubles[subject] = text
            self._report(Trouble(subject, text))
        if not text:
            self._troubles.pop(subject, None)


class SkippedReporter:
    """Reports records that are not copied as usual: the first of a topic, then at each doubling.

    These are records that a transform skips and records with unknown schema ids.

    Args:
        report: called with every note.
    """

    def __init__(self, report: Callable[[Event], None]) -> None:
        self._report = report
        self._totals: dict[tuple[type, str], tuple[int, int]] = {}

    def add(self, skipped: Iterable[SkippedRecords | UnknownSchemas]) -> None:
        """Count such records, and report them if it is time."""
        for records in skipped:
            key = type(records), records.source.topic
            total, limit = self._totals.get(key, (0, 1))
            total += records.count
            if total >= limit:
                self._report(Note(_describe(records, total)))
                limit = 2 * total
            self._totals[key] = total, limit


def _describe(last: SkippedRecords | UnknownSchemas, total: int) -> str:
    topic, at = last.source.topic, f"the last at {last.source} offset {last.last}"
    if isinstance(last, UnknownSchemas):
        return (
            f"schema mapping of {topic}: {counted(total, 'record')} {_schema_outcome(last)}, {at}: "
            f"the {last.part} has the id {last.schema_id}"
        )
    return (
        f"transform of {topic}: {counted(total, 'record')} {_outcome(last)}, {at}: "
        f"{last.step} failed"
    )


def _schema_outcome(records: UnknownSchemas) -> str:
    if not records.dead_letter_topic:
        return "copied with an unknown schema id (onUnknownSchema: passthrough)"
    return (
        f"with an unknown schema id written to {records.dead_letter_topic} "
        "(onUnknownSchema: deadLetter)"
    )


def _outcome(records: SkippedRecords) -> str:
    if not records.dead_letter_topic:
        return "skipped (onError: skip)"
    return f"written to {records.dead_letter_topic} (onError: deadLetter)"
