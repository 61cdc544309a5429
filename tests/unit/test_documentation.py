"""The documentation's own promises: links resolve, pages are indexed, the README stays short."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
INDEXES = sorted((ROOT / "docs").rglob("README.md"))
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """Return the anchors that a Markdown page's headings have on a code host."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in kept}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page: Path) -> None:
    for link in _LINK.findall(page.read_text()):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("index", INDEXES, ids=lambda page: str(page.relative_to(ROOT)))
def test_index_lists_every_page(index: Path) -> None:
    """An index lists the pages of its folder, and of those below that have no index."""
    folder = index.parent
    inner = [other.parent for other in INDEXES if folder in other.parent.parents]
    pages = [
        page.relative_to(folder)
        for page in folder.rglob("*.md")
        if page != index and (page.name == "README.md" or not {*page.parents} & {*inner})
    ]
    text = index.read_text()
    assert [page for page in pages if f"({page})" not in text] == []


def test_the_readme_stays_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def test_code_names_pages_that_exist() -> None:
    files = [
        file for folder in ("k2ktui", "tests", "bench") for file in (ROOT / folder).rglob("*.py")
    ]
    named = [
        (str(file.relative_to(ROOT)), page, anchor)
        for file in files
        for page, anchor in re.findall(r"\b(docs/[\w/-]+\.md)(?:#([\w-]+))?", file.read_text())
    ]
    assert len(named) > 30
    assert [row for row in named if not (ROOT / row[1]).exists()] == []
    assert [row for row in named if row[2] and row[2] not in anchors(ROOT / row[1])] == []


def test_architecture_names_what_exists() -> None:
    page = (ROOT / "docs" / "internals" / "architecture.md").read_text()
    package = ROOT / "k2ktui"
    for path in set(re.findall(r"(?<![\w/])(?:\w+/)+(?:\w+\.py)?(?!\w)", page)):
        places = (ROOT / path, package / path, package / "replication" / path)
        assert any(place.exists() for place in places), path
    code = "\n".join(file.read_text() for file in package.rglob("*.py"))
    for name in set(re.findall(r"\b(?:[A-Z][a-z]+){2,}\b", page)):
        known = re.search(rf"^\s*(?:class|def) {name}\b", code, re.MULTILINE)
        assert known or name in {"OffsetCommit", "EndTxn", "MirrorMaker"}, name


def test_the_path_of_a_batch_names_what_exists() -> None:
    page = (ROOT / "docs" / "internals" / "path-of-a-batch.md").read_text()
    package = ROOT / "k2ktui"
    code = "\n".join(file.read_text() for file in (package / "replication").rglob("*.py"))
    for path, name in re.findall(r"`([\w/]+\.py): ([\w.]+)`", page):
        folders = (package / "replication" / "copying", package / "replication", package)
        (file,) = [folder / path for folder in folders if (folder / path).exists()][:1]
        owner, _, method = name.rpartition(".")
        assert re.search(
            rf"^\s*(async )?(class|def) {method or owner}\b", file.read_text(), re.M
        ), name
        assert not owner or re.search(rf"^class {owner}\b", file.read_text(), re.M), name
    for owner, method in re.findall(r"`([A-Z]\w+)\.(\w+)`", page):
        body = re.search(rf"^class {owner}\b.*?(?=^\S|\Z)", code, re.M | re.S)
        assert body and re.search(rf"def {method}\b", body[0]), f"{owner}.{method}"


def test_table_of_faults_gives_the_seeds_of_the_tests() -> None:
    page = (ROOT / "docs" / "internals" / "exactly-once.md").read_text()
    section = page.partition("## Tried on which broker versions")[2]
    rows = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("|")][2:]
    given: dict[str, list[int]] = {}
    for _, old, new, tests in rows:
        files = re.findall(r"`(\S+\.py)`", tests)
        assert files and all((ROOT / "tests" / file).exists() for file in files), tests
        for count, repeats in re.findall(r"(\d+) seeds?( each)?", old + new):
            tested = 2 if repeats else 1  # "lost or late" are two tests
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


def test_messages_install_into_the_python_that_runs() -> None:
    """A bare ``pip`` is another Python's where the environment is not active."""
    bare = [
        f"{file.relative_to(ROOT)}: {text}"
        for file in (ROOT / "k2ktui").rglob("*.py")
        for text in _messages(file.read_text())
        if "pip install" in text and file.name != "errors.py"
    ]
    assert bare == []


def test_pages_name_the_versions_of_python_that_can_install_it() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    match = re.search(r'^requires-python = ">=3[.](\d+),<3[.](\d+)"$', project, re.MULTILINE)
    assert match
    range_ = match[1], str(int(match[2]) - 1)
    files = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "Dockerfile"]
    named = [
        (str(file.relative_to(ROOT)), lowest, highest)
        for file in files
        for lowest, highest in re.findall(r"3[.](\d+)(?:\u2013| to )3[.](\d+)", file.read_text())
        if lowest == range_[0]
    ]
    assert {name for name, _, _ in named} >= {"README.md", "CONTRIBUTING.md", "Dockerfile"}
    assert [row for row in named if row[1:] != range_] == []


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


MESSAGES = (ROOT / "docs" / "troubleshooting.md").read_text().partition("\n## Messages\n")[2]
QUOTED = re.findall(r"^- `([^`]+)`", MESSAGES, re.MULTILINE)


def _is_printed(message: str) -> bool:
    """Return whether the fixed words of a message are in one text of the code, in order."""
    parts = [part.strip() for part in re.split(r"<[^>]+>", message)]
    words = [re.escape(part) for part in parts if part]
    pattern = re.compile(".*".join(words), re.DOTALL)
    return any(pattern.search(text) for text in _code())


def test_troubleshooting_quotes_messages() -> None:
    entries = re.findall(r"^[-|*]", MESSAGES, re.M)
    assert len(entries) == len(QUOTED) > 50


@pytest.mark.xdist_group("documentation")  # the program is parsed once
@pytest.mark.parametrize("message", QUOTED)
def test_troubleshooting_is_of_messages_that_exist(message: str) -> None:
    assert _is_printed(message)


def test_a_message_that_is_not_printed_is_found() -> None:
    assert not _is_printed("the <cluster> cluster has gone fishing: <reason>")
