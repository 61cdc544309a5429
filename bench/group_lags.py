"""``python -m bench.group_lags``: what following 1,000 groups in time costs, without Kafka.

All groups commit on each partition between two polls, so that nothing is kept from one to the next.
What a poll of the console takes for their lags, their trends and their forecasts is printed, as a
share of one core at the default interval.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

from k2ktui.engine.log_times import CommitTimes, LogSpan, Partition
from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.groups import GroupRow
from k2ktui.engine.moves.lags import ReadLogs, measure_lags, sum_group_lags
from k2ktui.engine.moves.ratings import GroupSummary, summarize_groups
from k2ktui.watch.feed import DEFAULT_INTERVAL_S
from k2ktui.watch.history import GroupHistory, group_key

_RATE, _BACKLOG, _WARM = 50, 30_000, 60


class Followed:
    """Groups that read a steady backlog, and what follows them."""

    def __init__(self, groups: int, partitions: int, each: int) -> None:
        self._times, self._history, self._polls = CommitTimes(), GroupHistory(), 0
        places = [(f"topic-{number // 50}", number % 50) for number in range(partitions)]
        self._rows = [
            _row(f"group-{group:05}", places[(group * each + part) % partitions])
            for group in range(groups)
            for part in range(each)
        ]
        self._summaries: tuple[GroupSummary, ...] = summarize_groups(self._rows, {}, {})

    def poll(self) -> float:
        """Follow the groups for one more poll; return the CPU seconds that it took."""
        self._polls += 1
        now = self._polls * DEFAULT_INTERVAL_S
        end = 1_000_000 + round(now * _RATE)
        committed = end - _BACKLOG + round(now * _RATE / 10)
        rows = [
            replace(row, source_offset=committed + number % 7)
            for number, row in enumerate(self._rows)
        ]
        offsets: dict[Partition, set[int]] = {}
        for row in rows:
            offsets.setdefault((row.topic, row.partition), set()).add(row.source_offset or 0)
        began = time.process_time()
        bounds = {at: LogSpan(0, end, end) for at in offsets}
        asked = self._times.observe(offsets, bounds, now)
        self._times.learn({place: (place[2] - 1_000_000) / _RATE for place in asked})
        ends = dict.fromkeys(offsets, end)
        lags = measure_lags(rows, ReadLogs(ends, {}, self._times.times(), now))
        sums = sum_group_lags(rows, lags)
        by_key = {group_key(row): lag.records for row, lag in zip(rows, lags, strict=True)}
        self._history.add(now, by_key, {group: lag.records for group, lag in sums.items()})
        followed = self._history.with_lags(rows, lags, trends=True)
        self._history.sums_with_lags(self._summaries, sums, followed, trends=True)
        return time.process_time() - began


def _row(group: str, at: Partition) -> GroupRow:
    return GroupRow(group, *at, "Stable", "", 0, *at, 0, 0, Basis.EXACT, 0, 0, 0)


def main() -> None:
    """Measure, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--partitions", type=int, default=1_000)
    parser.add_argument("--each", type=int, default=5, help="partitions of a group")
    parser.add_argument("--polls", type=int, default=60)
    chosen = parser.parse_args()
    followed = Followed(chosen.groups, chosen.partitions, chosen.each)
    for _ in range(_WARM):
        followed.poll()
    spent = sorted(followed.poll() for _ in range(chosen.polls))
    mean, worst = sum(spent) / len(spent), spent[-1]
    share = 100 * mean / DEFAULT_INTERVAL_S
    print(
        f"{chosen.groups:,} groups on {chosen.each} of {chosen.partitions:,} partitions: "
        f"{1000 * mean:.0f} ms a poll, at most {1000 * worst:.0f} ms; {share:.1f} % of a core"
    )


if __name__ == "__main__":
    main()
