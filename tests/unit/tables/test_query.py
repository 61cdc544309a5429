"""What the options of a table ask for, and what they cannot."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from k2ktui.errors import ConfigError, Refused
from k2ktui.tables.columns import CONTENTS, TABLES, arrow_schema, ddl
from k2ktui.tables.query import Query, read_query

PAGE = Path(__file__).parents[3] / "docs" / "tables.md"


def test_options_are_read_in_any_case() -> None:
    options = {
        "path": "records",
        "FILE": "p.yaml",
        "Contents": "true",
        "taskOffsets": "7",
        "pushFilters": "true",
        "Topic": "Orders",
        "partition": "0",
    }
    query = read_query(options)
    assert query == Query(
        "records",
        "p.yaml",
        contents=True,
        push_filters=True,
        task_offsets=7,
        topic="Orders",
        partition=0,
    )
    assert query.wants("Orders", 0)
    for other in (("Orders", 1), ("orders", 0), ("Orders", None), (None, None)):
        assert not query.wants(*other)
    assert read_query({"path": "journal", "file": "p"}).wants(None, None)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"file": "p.yaml"}, "no table ''"),
        ({"path": "offsets", "file": "p.yaml"}, "no table 'offsets'"),
        ({"path": "ranges"}, "no pipeline is named"),
        ({"path": "ranges", "file": "p", "topics": "x"}, "unknown options: topics"),
        ({"path": "ranges", "file": "p", "contents": "true"}, "only the table records"),
        ({"path": "records", "file": "p", "contents": "yes"}, "true or false, not 'yes'"),
        ({"path": "records", "file": "p", "taskOffsets": "0"}, "a number from 1 on"),
        ({"path": "records", "file": "p", "partition": "-1"}, "number of a partition, not '-1'"),
        ({"path": "records", "file": "p", "partition": ""}, "number of a partition, not ''"),
        ({"path": "records", "file": "p", "partition": "2147483648"}, "number of a partition"),
        ({"path": "ranges", "file": "p", "topic": ""}, "the name of a source topic"),
        ({"path": "runs", "file": "p", "topic": "x"}, "runs has no topics and partitions"),
        ({"path": "runs", "file": "p", "pushFilters": "true"}, "and so no pushfilters"),
    ],
)
def test_nothing_is_ignored(options: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        read_query(options)


_FILE = """
name: p
source: {kafka: {common: {bootstrap.servers: "localhost:1"}}}
target: {kafka: {common: {bootstrap.servers: "localhost:2"}}}
replication: [{source: {topic: x}}, {sink: {topic: source, partition: source}}]
"""


@pytest.mark.parametrize(
    ("more", "unlock", "refused"),
    [
        ("", False, False),
        ("environment: production", False, True),
        ("environment: production", True, False),
        ("readOnly: true", True, True),
        ("console: {showRecords: disabled}", True, True),
    ],
)
def test_contents_are_shown_where_the_command_shows_them(
    tmp_path: Path, more: str, unlock: bool, refused: bool
) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(f"{_FILE}{more}\n")
    query = Query("records", str(file), contents=True, unlock=unlock)
    if refused:
        with pytest.raises(Refused):
            query.open_flow()
    else:
        query.open_flow()
    Query("records", str(file)).open_flow()


def test_the_page_names_every_column() -> None:
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([^|]+) \|$", PAGE.read_text(), re.MULTILINE)
    columns = {name: re.findall(r"`(\w+)`", cell) for name, cell in rows}
    for table, known in TABLES.items():
        assert columns[table] == list(known), table
    (line,) = [line for line in PAGE.read_text().splitlines() if line.startswith("| `contents`")]
    assert re.findall(r"`(\w+)`", line)[3:] == list(CONTENTS)


@pytest.mark.parametrize("table", TABLES)
def test_batches_have_the_types_that_spark_expects(table: str) -> None:
    from pyspark.sql.pandas.types import from_arrow_schema

    columns = {**TABLES[table], **CONTENTS}
    assert ddl(columns).count("`") == 2 * len(columns)
    read = from_arrow_schema(arrow_schema(columns))
    assert [field.name for field in read] == list(columns)
    names = {"struct": "array<struct<key:string,value:binary>>"}
    kinds = [field.dataType.simpleString() for field in read]
    assert [names.get(kind, kind) for kind in kinds] == list(columns.values())
