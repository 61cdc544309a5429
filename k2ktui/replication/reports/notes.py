"""Notes on what lasts or comes again, without repeating them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import monotonic

from k2ktui.errors import REFUSALS, K2kError
from k2ktui.replication.copying.slot_task import SkippedRecords, UnknownSchemas
from k2ktui.replication.reports.events import Event, Note, Trouble
from k2ktui.replication.reports.stopped import RETRY_S
from k2ktui.text import counted, duration

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 10.0
_LONGEST_PAUSE_S = 600.0
_WORTH_AN_END_S = 10.0
_MOST_TEXTS = 100


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
