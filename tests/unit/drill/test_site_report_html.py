"""The page of a site drill: the site first, then each pipeline; no name becomes markup."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from k2ktui.drill.report_html import render_html
from k2ktui.engine.drill.site import SiteDrill, gather_site
from k2ktui.site.report import make_site_report, site_markdown
from k2ktui.text import safe_text
from tests.support.console.sites import NAMES, half_way
from tests.support.drill.pages import HOSTILE, Page, measure


def site() -> SiteDrill:
    return gather_site(half_way(), {"search": "no answer"})


def test_it_says_what_the_markdown_says() -> None:
    made = site()
    text = render_html(make_site_report(made))
    shown = "".join(Page(text).texts)
    for name in NAMES:
        assert name in shown
    assert text.count("<h2>") == 1 + len(made.drills), "the pipelines, then each of them"
    for line in site_markdown(made).splitlines():
        if line.startswith("#"):
            title = line.lstrip("# ").replace("\\", "")
            assert title in shown, title
    assert shown.index("has not ended") < shown.index("Pipelines") < shown.index("Timeline")


def test_hostile_names_are_text() -> None:
    made = site()
    members = tuple(
        replace(
            state,
            member=replace(state.member, pipeline=HOSTILE),
            error=HOSTILE,
            drill=state.drill and replace(state.drill, pipeline=HOSTILE),
        )
        for state in made.members
    )
    page = Page(render_html(make_site_report(replace(made, members=members))))
    assert "script" not in page.tags and "img" not in page.tags
    assert safe_text(HOSTILE) in "".join(page.texts)


@pytest.mark.slow
def test_on_a_phone_nothing_is_beside_the_screen(tmp_path: Path) -> None:
    assert measure(tmp_path, render_html(make_site_report(site())), 390) <= 390
