"""Export to files in the working directory: the view as JSON, a table as CSV."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from k2ktui.private_files import FILE_MODE
from k2ktui.text import file_part
from k2ktui.watch.codec import dumps
from k2ktui.watch.model import View

_FORMULA = ("=", "@", "\t", "\r")
_NUMBER = re.compile(r"[+-]?[\d,.]+( \w+)?")
Table = tuple[list[str], list[list[str]]]


def file_stem(view: View, screen: str) -> str:
    """Return a file name stem made of the pipeline, the screen and the view's time (UTC)."""
    pipeline = file_part(view.pair.pipeline)[:60]
    at = datetime.fromtimestamp(view.taken_at, UTC).strftime("%Y%m%dT%H%M%SZ")
    return f"k2ktui-{pipeline}-{screen}-{at}"


def write(
    directory: Path,
    view: View,
    screen: str,
    table: Table | None,
    document: str | None = None,
    markdown: str | None = None,
) -> list[Path]:
    """Write the view, or the screen's own document; the table and the Markdown if there are any.

    Returns:
        The paths of the written files.

    Raises:
        OSError: the directory cannot be written to.
    """
    stem = file_stem(view, screen)
    text = dumps(view) if document is None else document
    paths = [_new(directory, stem, "json", text + "\n")]
    if table is not None:
        paths.append(_new(directory, stem, "csv", to_csv(table)))
    if markdown is not None:
        paths.append(_new(directory, stem, "md", markdown))
    return paths


def to_csv(table: Table) -> str:
    """Return a table as CSV; cells that a spreadsheet would run as formulas get a leading quote."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    headings, rows = table
    writer.writerow(headings)
    writer.writerows([_harmless(row) for row in rows])
    return out.getvalue()


def _harmless(row: Sequence[str]) -> list[str]:
    return [f"'{cell}" if _risky(cell) else cell for cell in row]


def _risky(cell: str) -> bool:
    if cell.startswith(_FORMULA):
        return True
    return cell[:1] in "+-" and bool(cell) and not _NUMBER.fullmatch(cell)


def _new(directory: Path, stem: str, suffix: str, text: str) -> Path:
    """Write a new file; a number is added to the name if the file exists."""
    for number in range(1, 1000):
        path = directory / (f"{stem}.{suffix}" if number == 1 else f"{stem}-{number}.{suffix}")
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            continue
        return path
    raise OSError(f"too many files of the name {stem}")
