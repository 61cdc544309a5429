"""The SELECT of a transform: its parts, and what needs more than the record itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.transforms.select_text import SelectText, parse_select
from tests.support.pipelines.selects import make_select


def test_parts() -> None:
    assert parse_select("SELECT key, value FROM records") == SelectText(())
    assert parse_select(
        "select upper(key) AS `key`, -- FROM nowhere\n"
        "  CASE WHEN value.order IS DISTINCT FROM 'a, FROM b' THEN trim(BOTH FROM value.b)\n"
        "  ELSE filter(value.list, x -> x > 1) END as value, headers\n"
        'FROM `records` WHERE value.limit > 2 /* not NULL */ AND key IS DISTINCT FROM "x"'
    ) == SelectText(
        (
            ("key", "upper(key)"),
            (
                "value",
                "CASE WHEN value.order IS DISTINCT FROM 'a, FROM b' THEN trim(BOTH FROM value.b)\n"
                "  ELSE filter(value.list, x -> x > 1) END",
            ),
        ),
        "",
        'value.limit > 2 /* not NULL */ AND key IS DISTINCT FROM "x"',
    )


@given(st.integers(0, 2**32))
def test_the_parts_are_the_texts_of_the_statement(seed: int) -> None:
    select = make_select(seed)
    parts = parse_select(select.text)
    columns = {**select.columns, **dict(parts.columns)}
    assert columns == select.columns
    assert (parts.exploded, parts.where) == (select.exploded, select.where)
    # A column that stays as it is has no part, unless it is exploded.
    for name in select.columns.keys() - dict(parts.columns).keys():
        assert name == select.columns[name] and name != select.exploded


def test_a_carriage_return_ends_a_comment() -> None:
    """Spark reads 1 + 2 here: a part that ends later would lose what follows the comment."""
    parts = parse_select("SELECT 1 -- one\r + 2 AS key, value FROM records")
    assert parts.columns == (("key", "1 -- one\r + 2"),)


def test_an_array_is_exploded() -> None:
    select = parse_select("SELECT key, explode(value.items) AS value FROM records")
    assert select == SelectText((("value", "value.items"),), "value")
    select = parse_select("SELECT explode(key) AS key, explode(1) + 1 AS value FROM records")
    assert select.exploded == "key" and dict(select.columns)["value"] == "explode(1) + 1"
    select = parse_select("SELECT explode(value) AS value, key FROM records")
    assert select == SelectText((("value", "value"),), "value")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "SELECT … AS key"),
        ("DELETE FROM records", "SELECT … AS key"),
        ("SELECT key, value", "SELECT … AS key"),
        ("SELECT DISTINCT key, value FROM records", "no DISTINCT: its plan has the operator Aggr"),
        ("SELECT key, value FROM other", "FROM records in"),
        ("SELECT key, value FROM records r", "WHERE after FROM records, not r"),
        ("SELECT key, value FROM records, others", "WHERE after FROM records, not ,"),
        ("SELECT key, value FROM records JOIN b", "no JOIN: its plan has the operator Join"),
        ("SELECT key, value FROM records ORDER BY key", "no ORDER: its plan has the operator Sort"),
        ("SELECT key, value FROM records LIMIT 1", "no LIMIT: its plan has the operator Limit"),
        ("SELECT key, value FROM records LATERAL VIEW explode(x) t", "the operator Generate"),
        ("SELECT key, value FROM records WHERE a GROUP BY key", "the operator Aggregate"),
        ("SELECT key, value FROM records WHERE a UNION SELECT 1", "the operator Union"),
        ("SELECT key, value FROM records WHERE ", "a predicate after WHERE"),
        ("SELECT * FROM records", "AS key, AS value or AS headers after *"),
        ("SELECT key value FROM records", "AS key, AS value or AS headers after key value"),
        ("SELECT key, FROM records", "AS key, AS value or AS headers after each expression"),
        ("SELECT key, value, offset FROM records", "named key, value and headers only, not offset"),
        ("SELECT key, key, value FROM records", "one column named key"),
        ("SELECT key FROM records", "a column named value"),
        ("SELECT explode(a) AS key, explode(b) AS value FROM records", "one explode at most"),
        ("SELECT key, value FROM records /* all", "*/ after each /*"),
        ("SELECT key, value FROM records /* /* all */", "*/ after each /*"),
    ],
)
def test_what_is_refused(text: str, error: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_select(text)
    assert error in str(refused.value)
