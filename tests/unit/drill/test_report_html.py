"""The report as one page: nothing is loaded, no name becomes markup, and a browser shows it."""

from __future__ import annotations

import re
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.drill.report import make_report
from k2ktui.drill.report_html import report_html
from k2ktui.engine.drill.checks import CheckResult, DrillCheckOutcome, DrillKind, DrillPhase
from k2ktui.engine.drill.model import (
    Change,
    ChangeKind,
    ChangeStatus,
    Drill,
    DrillEvent,
    GroupResult,
)
from k2ktui.engine.drill.objectives import Objectives
from k2ktui.engine.drill.rehearsals import Rehearsal
from k2ktui.text import safe_text
from tests.support.drill.made_drills import NOON_MS, in_phase, new_drill, rehearsed, switched_over
from tests.support.drill.pages import HOSTILE, Page, measure, open_page


def trend(number: int, *, records: int | None = 3) -> tuple[Rehearsal, ...]:
    day = 86_400_000
    return tuple(
        Rehearsal(f"r{n}", NOON_MS - (number - n) * day, 0, 0, records, 500, 4_000 + n)
        for n in range(number)
    )


def hostile(name: str = HOSTILE) -> Drill:
    change = Change(
        DrillPhase.APPLY, ChangeKind.OFFSETS, safe_text(name), "", "", name, ChangeStatus.MADE
    )
    result = CheckResult(
        "D46", "measured RTO and RPO", DrillCheckOutcome.FAIL, safe_text(name), safe_text(name)
    )
    drill = in_phase(switched_over(), DrillPhase.WATCH_CLIENTS, safe_text(name))
    return replace(
        drill,
        id=name,
        pipeline=name,
        source_cluster=name,
        started_by=name,
        version=name,
        groups=(GroupResult(name, note=safe_text(name)),),
        changes=(change,),
        checks=(result,),
        blockers=(safe_text(name),),
        events=(DrillEvent(NOON_MS, name, name, safe_text(name), "", "d"),),
        objectives=Objectives(2, 1.0, 4.0),
    )


def texts_of(drill: Drill, rehearsals: tuple[Rehearsal, ...] = ()) -> str:
    return "".join(Page(report_html(drill, rehearsals)).texts)


def test_hostile_names_are_text() -> None:
    page = Page(report_html(hostile(), trend(3)))
    assert "script" not in page.tags and "img" not in page.tags
    assert {name for name, _ in page.attributes} <= {
        *("lang", "charset", "http-equiv", "content", "name", "class", "role", "aria-label"),
        *("height", "width", "x", "y", "rx", "x1", "x2", "y1", "y2", "text-anchor", "data-label"),
    }
    shown = "".join(page.texts)
    assert shown.count(safe_text(HOSTILE)) >= 10 and "\x1b" not in shown


@given(st.text(max_size=30))
def test_any_name_leaves_the_page_whole(name: str) -> None:
    page = Page(report_html(hostile(name), trend(1)))
    if name.strip():
        assert safe_text(name) in "".join(page.texts)


def test_nothing_is_loaded_and_nothing_runs() -> None:
    text = report_html(rehearsed(), trend(20))
    assert "default-src 'none'" in text
    for word in ("<script", "src=", "href=", "url(", "@import", "http://", "https://"):
        assert word not in text


def test_it_says_what_the_markdown_says() -> None:
    drill, rehearsals = hostile("orders"), trend(40)
    report = make_report(drill, rehearsals)
    shown = texts_of(drill, rehearsals)
    for section in report.sections:
        for text in (section.title, *section.items, *sum(section.rows, ())):
            assert text in shown, text
    assert shown.index(report.summary[0]) < shown.index("Timeline")


def test_the_trend_has_a_column_a_rehearsal_and_the_objectives() -> None:
    drill = replace(rehearsed(), objectives=Objectives(2, None, 5.0), ended_ms=NOON_MS)
    text = report_html(drill, trend(6))
    assert text.count('class="goal"') == 2 and "objective: at most 2 records" in text
    assert text.count('<rect class="bad"') == 6, "3 records are more than 2, in each of them"
    assert "RPO: age of the oldest of them<br>last: 0.5 s" in text
    assert "2026-11-15 to 2026-11-20" in text
    unknown = report_html(drill, trend(6, records=None))
    assert unknown.count('<rect class="unknown"') == 6 and "last: unknown" in unknown
    later = tuple(replace(one, at_ms=NOON_MS + 1) for one in trend(6))
    assert "Trend" not in report_html(drill, later), "what came later is not in the report"


def test_a_drill_that_has_hardly_begun_has_a_page() -> None:
    for kind in DrillKind:
        assert "preflight" in texts_of(new_drill(kind))


def browse(tmp_path: Path, *options: str) -> bytes:
    return open_page(tmp_path, report_html(hostile(), trend(12)), *options)


def first_pixel(path: Path) -> tuple[int, ...]:
    """Return the color in the upper left corner of a PNG."""
    data, at, packed = path.read_bytes(), 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        if kind == b"IDAT":
            packed += data[at + 8 : at + 8 + size]
        at += size + 12
    # Whatever the filter, the first pixel has no neighbor, so it is as it is.
    return tuple(zlib.decompress(packed)[1:4])


@pytest.mark.slow
def test_a_browser_shows_it_light_and_dark_and_prints_it(tmp_path: Path) -> None:
    dom = browse(tmp_path, "--dump-dom").decode()
    page = Page(re.sub(r"<!DOCTYPE[^>]*>", "", dom))
    assert safe_text(HOSTILE) in "".join(page.texts) and page.tags.count("svg") == 4
    for scheme, color in (("1", (255, 255, 255)), ("0", (0x12, 0x16, 0x1C))):
        picture = tmp_path / f"{scheme}.png"
        setting = f"--blink-settings=preferredColorScheme={scheme}"
        browse(tmp_path, setting, "--window-size=500,900", f"--screenshot={picture}")
        assert first_pixel(picture) == color
    browse(tmp_path, f"--print-to-pdf={tmp_path / 'report.pdf'}")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.slow
def test_on_a_phone_nothing_is_beside_the_screen(tmp_path: Path) -> None:
    drill = replace(hostile("orders"), groups=(GroupResult("a-group-of-the-shop.v2" * 4),))
    assert measure(tmp_path, report_html(drill, trend(60)), 390) <= 390
