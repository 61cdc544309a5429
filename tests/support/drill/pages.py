"""Reports as HTML pages: what they consist of, and how a browser shows them."""

from __future__ import annotations

import re
import shutil
import subprocess
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import pytest

HOSTILE = "</td><script>alert(1)</script><img src=x onerror='a(\"1\")'>&amp;\x1b[31m"
_VOID = {"meta", "br"}
_TAGS = {
    *("html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "ul", "li", "p", "code"),
    *("div", "table", "thead", "tbody", "tr", "th", "td", "figure", "figcaption", "span", "br"),
    *("svg", "rect", "line", "text"),
}


class Page(HTMLParser):
    """A page: its elements are balanced, and all of them are known."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in _TAGS, tag
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.texts.append(data)


# Tells how far to the right the elements of a page reach that is shown in a frame.
_MEASURE = """<!DOCTYPE html><body><iframe id="f" width="{width}" height="900" srcdoc="{page}">
</iframe><script>
addEventListener("load", () => {{
  const inner = document.getElementById("f").contentDocument;
  const rights = [...inner.querySelectorAll("*")].map(e => e.getBoundingClientRect().right);
  document.title = "reaches " + Math.ceil(Math.max(inner.documentElement.scrollWidth, ...rights));
}});
</script></body>"""


def open_page(tmp_path: Path, text: str, *options: str) -> bytes:
    """Open a page in a browser without a window; return what that prints."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("no chromium")
    page = tmp_path / "page.html"
    page.write_text(text)
    command = [found, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", *options, page.as_uri()]
    return subprocess.run(command, check=True, capture_output=True, timeout=300).stdout


def measure(tmp_path: Path, text: str, width: int) -> int:
    """Return how far to the right a page reaches that is so many pixels wide."""
    framed = _MEASURE.format(width=width, page=escape(text, quote=True))
    shown = open_page(tmp_path, framed, "--dump-dom").decode()
    reaches = re.search(r"<title>reaches ([0-9]+)</title>", shown)
    assert reaches, shown[:500]
    return int(reaches[1])
