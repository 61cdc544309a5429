"""The documentation's own promises: links resolve, pages are indexed, the README stays short."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """Return the anchors that a Markdown page's headings have on a code host."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in kept}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_resolve(page: Path) -> None:
    for link in _LINK.findall(page.read_text()):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_index_lists_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    pages = [page.name for page in (ROOT / "docs").glob("*.md") if page.name != "README.md"]
    assert [page for page in pages if f"({page})" not in index] == []


def test_architecture_names_what_exists() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    package = ROOT / "k2ktui"
    for path in set(re.findall(r"(?<![\w/])(?:\w+/)+(?:\w+\.py)?(?!\w)", page)):
        places = (ROOT / path, package / path, package / "replication" / path)
        assert any(place.exists() for place in places), path
    code = "\n".join(file.read_text() for file in package.rglob("*.py"))
    for name in set(re.findall(r"\b(?:[A-Z][a-z]+){2,}\b", page)):
        known = re.search(rf"^\s*(?:class|def) {name}\b", code, re.MULTILINE)
        assert known or name in {"OffsetCommit", "EndTxn", "MirrorMaker"}, name


def test_table_of_faults_gives_the_seeds_of_the_tests() -> None:
    page = (ROOT / "docs" / "exactly-once.md").read_text()
    section = page.partition("## Tried on which broker versions")[2]
    rows = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("|")][2:]
    given: dict[str, list[int]] = {}
    for _, old, new, tests in rows:
        files = re.findall(r"`(\S+\.py)`", tests)
        assert files and all((ROOT / "tests" / file).exists() for file in files), tests
        for count, each in re.findall(r"(\d+) seeds?( each)?", old + new):
            tested = 2 if each else 1  # "lost or late" are two tests
            given.setdefault(files[-1], []).extend([int(count)] * tested)
    marks = {
        str(path.relative_to(ROOT / "tests")): [
            int(count)
            for count in re.findall(r"^@pytest\.mark\.seeds\((\d+)\)", text, re.MULTILINE)
        ]
        for path in (ROOT / "tests").rglob("test_*.py")
        if "mark.seeds(" in (text := path.read_text())
    }
    assert {file: sorted(counts) for file, counts in given.items()} == {
        file: sorted(counts) for file, counts in marks.items() if counts
    }


def test_faults_of_the_table_do_not_depend_on_the_parity_of_the_seed() -> None:
    """A test with one seed would never do what is left to odd ones: make it a parameter."""
    texts = {path.name: path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    marked = {name: text for name, text in texts.items() if "@pytest.mark.seeds(" in text}
    assert len(marked) > 10
    assert [name for name, text in marked.items() if re.search(r"\bseed %", text)] == []


def test_extras_are_installed_in_one_form() -> None:
    """k2ktui is in no package index: its name with an extra works only where it is installed."""
    texts = {page: page.read_text() for page in PAGES}
    texts |= {file: file.read_text() for file in (ROOT / "k2ktui").rglob("*.py")}
    named = [
        f"{file.relative_to(ROOT)}: {line}"
        for file, text in texts.items()
        for line in text.splitlines()
        if re.search(r"pip install\b.*\bk2ktui\[", line) and "--find-links" not in line
    ]
    assert named == []


def _messages(source: str) -> Iterator[str]:
    """Yield the texts of a module; an expression in an f-string is a NUL character."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            values = (v.value if isinstance(v, ast.Constant) else "\0" for v in node.values)
            yield "".join(map(str, values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@cache
def _code() -> list[str]:
    return [
        text for file in (ROOT / "k2ktui").rglob("*.py") for text in _messages(file.read_text())
    ]


QUOTED = re.findall(
    r"^\| `([^`]+)` \|", (ROOT / "docs" / "troubleshooting.md").read_text(), re.MULTILINE
)


def _is_printed(message: str) -> bool:
    """Return whether the fixed words of a message are in one text of the code, in order."""
    parts = [part.strip() for part in re.split(r"<[^>]+>", message)]
    words = [re.escape(part) for part in parts if part]
    pattern = re.compile(".*".join(words), re.DOTALL)
    return any(pattern.search(text) for text in _code())


def test_troubleshooting_quotes_messages() -> None:
    rows = re.findall(
        r"^\| (?!message|-)", (ROOT / "docs" / "troubleshooting.md").read_text(), re.M
    )
    assert len(rows) == len(QUOTED) > 50


@pytest.mark.xdist_group("documentation")  # the program is parsed once
@pytest.mark.parametrize("message", QUOTED)
def test_troubleshooting_is_of_messages_that_exist(message: str) -> None:
    assert _is_printed(message)


def test_a_message_that_is_not_printed_is_found() -> None:
    assert not _is_printed("the <cluster> cluster has gone fishing: <reason>")
