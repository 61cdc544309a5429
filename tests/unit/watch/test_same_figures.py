"""Commands, screens and heartbeats show the same figures of one moment."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from k2ktui.cli.views import status_object
from k2ktui.console.session import Session
from k2ktui.engine.status import PartitionState, count_lag, sum_lags
from k2ktui.sync.flow import Flow
from k2ktui.watch.codec import dumps
from k2ktui.watch.model import PartName, PipelinePair, View
from k2ktui.watch.once import Reading
from tests.support.console.driver import ConsoleDriver, drive_session
from tests.support.console.views import Made, StubFeed, lines_of, runner
from tests.support.jobs.jobs import config_of, write_pipeline

LAGS = {("clicks", 0): 1200, ("clicks", 1): 0, ("orders", 0): 34}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pipeline file; jobs and keys of this test alone."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return write_pipeline(tmp_path / "orders.yaml", 1)


# Programs read these names.
FIELDS = (
    "topic partition state path source_start source_end position lag_records lag_s "
    "target_topic target_partition target_end mapped_records coverage held_back held_back_by "
    "held_back_s copied_at hold moved_by moved_at compared"
)


def made(name: str) -> Made:
    """A pipeline that has copied 100 records a second; its heartbeat has an older lag."""
    beat = runner(lag_records=999_999)
    made = Made(PipelinePair(name), time.time() - 30, runners=(beat,))
    for (topic, partition), lag in LAGS.items():
        made.partition(topic, partition, end=50_000, lag=lag)
    for _ in range(6):
        made.view()
        made.now += 5
        made.copy(500)
    return made


def figures(view: View) -> dict[tuple[str, int], dict[str, object]]:
    """The partitions as ``k2ktui status --json`` prints them."""
    printed = json.loads(json.dumps(status_object(Reading(view))))
    return {(row["topic"], row["partition"]): row for row in printed["partitions"]}


def test_status_and_watch_print_the_same_partitions(file: Path) -> None:
    view = made("orders").view()
    watched = json.loads(dumps(view))
    columns = watched["partitions"]["columns"]
    rows = [dict(zip(columns, row, strict=True)) for row in watched["partitions"]["rows"]]
    status = figures(view)
    assert len(rows) == len(status) == len(LAGS)
    for row in rows:
        assert " ".join(status[row["topic"], row["partition"]]) == FIELDS
        at = row["topic"], row["partition"]
        # A recording has one name of its own, and the comparison once for all.
        shown = {**row, "lag_s": row["lag_seconds"], "compared": None}
        assert status[at].items() <= shown.items()
        assert (row["lag_records"], row["state"] == "caught-up") == (LAGS[at], not LAGS[at])
    assert watched["totals"]["lag_records"] == sum(LAGS.values())
    assert watched["totals"]["rate"] == pytest.approx(300)


def test_lines_show_the_same_sums() -> None:
    made_ = made("orders")
    said = lines_of(made_.view(), made_.now)
    assert f"lag {sum(LAGS.values()):,} records, the oldest 3.0 s old" in said
    assert "throughput 300 records/s" in said


def test_screens_show_the_same_sums(file: Path) -> None:
    config = config_of(file)
    pipeline = made(config.name)
    lag = f"{sum(LAGS.values()):,}"

    async def steps(console: ConsoleDriver) -> None:
        await console.sees("bastion2", lag)  # screen 5, Jobs
        assert "999,999" not in console.text
        await console.press("1")
        await console.sees("Group divergence")
        assert re.search(rf"{lag} records\s+3\.0 s behind", console.panel("Lag"))
        assert "300 records/s" in console.panel("Lag")
        await console.press("2")
        await console.sees(f"lag {lag}", "300 records/s")
        for (topic, partition), behind in LAGS.items():
            assert re.search(rf"{topic}-{partition} .* {behind:,} ", console.text)

    session = Session(StubFeed(pipeline), pipeline.pair, Flow(config), (str(file),))
    drive_session(session, steps, (160, 40), screen="5")


def test_heartbeats_count_as_views_do() -> None:
    pipeline = made("orders")
    view = pipeline.view()
    lags = [count_lag(p.offset, pipeline.ends.get(at)) for at, p in pipeline.positions.items()]
    assert sum_lags(lags) == view.totals.lag_records


def test_what_was_not_read_is_null_and_never_zero() -> None:
    pipeline = made("orders")
    pipeline.unread = {PartName.SOURCE, PartName.GROUPS}
    pipeline.forget()
    view = pipeline.view()
    assert figures(view).keys() == LAGS.keys()
    for row in figures(view).values():
        unknown = ("source_end", "lag_records", "lag_s", "mapped_records", "coverage")
        assert [row[name] for name in unknown] == [None] * 5
        assert (row["state"], row["target_end"] is None) == (PartitionState.UNKNOWN, False)
