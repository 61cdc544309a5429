"""The SELECT of a transform: its parts, and what needs more than the record itself."""

from __future__ import annotations

import pytest

from k2ktui.engine.select_text import SelectText, parse_select


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


def test_an_array_is_exploded() -> None:
    found = parse_select("SELECT key, explode(value.items) AS value FROM records")
    assert found == SelectText((("value", "value.items"),), "value")
    found = parse_select("SELECT explode(key) AS key, explode(1) + 1 AS value FROM records")
    assert found.exploded == "key" and dict(found.columns)["value"] == "explode(1) + 1"
    found = parse_select("SELECT explode(value) AS value, key FROM records")
    assert found == SelectText((("value", "value"),), "value")


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
    ],
)
def test_what_is_refused(text: str, error: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_select(text)
    assert error in str(refused.value)
