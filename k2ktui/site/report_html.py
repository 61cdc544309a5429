"""The report of a site drill as one HTML page: the site first, then each pipeline."""

from __future__ import annotations

from collections.abc import Iterator

from k2ktui.drill.report import Section, make_report
from k2ktui.drill.report_html import html_of_drill, html_of_section, html_page
from k2ktui.engine.drill.site import SiteDrill
from k2ktui.site.report import (
    MEMBER_COLUMNS,
    member_cells,
    site_has_findings,
    site_summary,
    site_title,
)


def site_html(site: SiteDrill) -> str:
    """Return the report as a page; the same as :func:`~k2ktui.site.report.site_markdown`."""
    verdict = "info"
    if site.is_over:
        verdict = "bad" if site_has_findings(site) else "ok"
    return html_page(site_title(site), site_summary(site), verdict, _content(site))


def _content(site: SiteDrill) -> Iterator[str]:
    rows = tuple(map(member_cells, site.members))
    yield from html_of_section(Section("Pipelines", columns=MEMBER_COLUMNS, rows=rows))
    for drill in site.drills:
        report = make_report(drill)
        yield from html_of_section(Section(report.title, items=report.summary))
        yield from html_of_drill(drill, report, level=3)
