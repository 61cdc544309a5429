"""The last comparison of all records, as status, watch and Overview show it."""

from __future__ import annotations

from dataclasses import replace

from k2ktui.cli.views import status_object
from k2ktui.console.screens.overview_facts import OverviewFigures
from k2ktui.console.widgets.styled_text import plain
from k2ktui.engine.compare.record import ComparisonRecord
from k2ktui.engine.records.state import SourcePartition
from k2ktui.present.formatting import UNICODE
from k2ktui.present.view_lines import view_lines
from k2ktui.watch.codec import dumps, loads
from k2ktui.watch.once import Reading
from tests.support.console.views import SOURCE_ID, TARGET_ID, usual


def test_the_last_comparison_is_on_every_surface() -> None:
    made = usual()
    at_ms = round((made.now - 3600) * 1000)
    record = ComparisonRecord(
        at_ms, "ann@host", SOURCE_ID, TARGET_ID, 1, 0, 0, {"equal": 1234}, 1.0, True,
        {SourcePartition("payments", 0): (0, 1234)},
    )  # fmt: skip
    view = replace(made.view(), last_comparison=record)
    assert any("every record compared at " in line for line in view_lines(view, made.now))
    shown = [plain(line) for line in OverviewFigures(view, made.now, UNICODE).pair_lines(None)]
    (line,) = (line for line in shown if line.startswith("Compared"))
    assert "no difference" in line and "every record" in line and "1h" in line.replace(" ", "")
    assert status_object(Reading(view))["last_comparison"]["counts"] == {"equal": 1234}
    by_partition = {
        (row["topic"], row["partition"]): row["compared"]
        for row in status_object(Reading(view))["partitions"]
    }
    expected = {"ended_at": at_ms / 1000, "differences": 0, "unproven": 0, "whole": True}
    assert by_partition["payments", 0] == expected and by_partition["payments", 1] is None
    assert loads(dumps(view)).last_comparison == record

    differing = replace(record, differences=7, unproven=2, is_whole=False)
    view = replace(view, last_comparison=differing)
    shown = [plain(line) for line in OverviewFigures(view, made.now, UNICODE).pair_lines(None)]
    (line,) = (line for line in shown if line.startswith("Compared"))
    assert "7 different, 2 unproven, some records" in line
    assert not any(
        plain(line).startswith("Compared")
        for line in OverviewFigures(made.view(), made.now, UNICODE).pair_lines(None)
    )
