"""Reads the SELECT of ``replication.transform.sql`` into its parts, which Spark then parses.

Only the form ``SELECT expression AS name, … FROM records [WHERE predicate]`` is allowed: each part
is evaluated by itself, so that an error of one record does not fail the job.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

#: The columns of a record that a SELECT may return.
COLUMNS = ("key", "value", "headers")

# The same ends as for Spark's lexer: an expression would lose what follows a comment that ends
# later here. A carriage return ends a comment after --, a backslash continues it in the next line.
_TOKEN = re.compile(
    r"""
      (?P<comment>--(?:\\\n|[^\r\n])*)
    | (?P<bracketed>/\*)
    | (?P<quoted>[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`]|``)*`)
    | (?P<word>\w+)
    | (?P<other>::|.)
    """,
    re.VERBOSE | re.DOTALL,
)
# What precedes the < of a type; value::INT < 3 is a comparison.
_CASTS_TO_NESTED = (("::", "array"), ("::", "map"), ("::", "struct"))
# Comments in brackets nest, except for hints.
_COMMENT_MARK = re.compile(r"(?P<opens>/\*(?!\+))|\*/")
_OPERATORS = {
    "group": "Aggregate",
    "having": "Aggregate",
    "distinct": "Aggregate",
    "order": "Sort",
    "sort": "Sort",
    "cluster": "Exchange",
    "distribute": "Exchange",
    "limit": "Limit",
    "union": "Union",
    "intersect": "Intersect",
    "except": "Except",
    "minus": "Except",
    "join": "Join",
    "window": "Window",
    "lateral": "Generate",
    "pivot": "Pivot",
    "unpivot": "Expand",
    "tablesample": "Sample",
}
_FORM = "SELECT … AS key, … AS value FROM records [WHERE …]"


@dataclass(frozen=True, slots=True)
class SelectText:
    """The parts of a SELECT.

    Attributes:
        columns: (name, expression) pairs of the columns that it changes.
        exploded: the column with ``explode``, "" for none: its expression in ``columns`` is the
            array, and each element becomes a record.
        where: the predicate; "" for none.
    """

    columns: tuple[tuple[str, str], ...]
    exploded: str = ""
    where: str = ""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    begin: int
    end: int
    depth: int

    @property
    def word(self) -> str:
        return self.text.lower() if self.kind == "word" else ""


def parse_select(text: str) -> SelectText:
    """Split a SELECT into its parts.

    Raises:
        ValueError: it has another form; the message says what is expected.
    """
    tokens = list(_tokens(text))
    if not tokens or tokens[0].word != "select":
        raise ValueError(_FORM)
    top = [token for token in tokens if not token.depth]
    source = next((n for n in range(1, len(top)) if _begins_from(top, n)), None)
    if source is None:
        raise ValueError(_FORM)
    if top[1].word == "distinct":
        raise ValueError(_needs_more(top[1]))
    rest = top[source + 1 :]
    if not rest or rest[0].text.strip("`").lower() != "records":
        raise ValueError(f"FROM records in {_FORM}")
    where = ""
    if len(rest) > 1:
        if rest[1].word != "where":
            raise ValueError(_needs_more(rest[1]))
        for before, token in itertools.pairwise(rest[1:]):
            # ``value.order`` is a field, and IS DISTINCT FROM a comparison.
            if token.word in _OPERATORS and token.word != "distinct" and not _names_field(before):
                raise ValueError(_needs_more(token))
        where = text[rest[1].end :].strip()
        if not where:
            raise ValueError("a predicate after WHERE")
    body = [token for token in tokens[1:] if token.begin < top[source].begin]
    return _read_columns(text, body, where)


def _begins_from(top: list[_Token], number: int) -> bool:
    before = top[number - 1]
    return top[number].word == "from" and before.word != "distinct" and not _names_field(before)


def _names_field(before: _Token) -> bool:
    """Return whether what follows is a field of a structure (value.a) or of a variant (value:a)."""
    return before.text in (".", ":")


def _read_columns(text: str, body: list[_Token], where: str) -> SelectText:
    columns: dict[str, str] = {}
    exploded = ""
    for item in _items(body):
        name, expression = _named(text, item)
        if name not in COLUMNS:
            raise ValueError(f"columns named key, value and headers only, not {name or '(none)'}")
        if name in columns:
            raise ValueError(f"one column named {name}")
        inner = _exploded(text, expression)
        if inner:
            if exploded:
                raise ValueError("one explode at most")
            exploded = name
        columns[name] = inner or text[expression[0].begin : expression[-1].end]
    missing = [name for name in ("key", "value") if name not in columns]
    if missing:
        raise ValueError(f"a column named {missing[0]}: {_FORM}")
    changed = tuple(
        (name, column)
        for name, column in columns.items()
        if name == exploded or column.strip("`").lower() != name
    )
    return SelectText(changed, exploded, where)


def _tokens(text: str) -> Iterator[_Token]:
    """Return what is neither a comment nor white space, with its depth in brackets.

    Raises:
        ValueError: a comment has no end.
    """
    at = depth = types = 0
    before: tuple[str, ...] = ()
    while match := _TOKEN.match(text, at):
        kind, part, at = str(match.lastgroup), match.group(), match.end()
        if kind == "bracketed":
            at = _comment_end(text, at)
        if kind in ("comment", "bracketed") or part.isspace():
            continue
        # The commas of value::MAP<STRING, INT> are no commas of the SELECT; other types are in
        # parentheses.
        opens_type = part == "<" and (types or before in _CASTS_TO_NESTED)
        closes_type = part == ">" and types
        if part in (")", "]") or closes_type:
            depth -= 1
        yield _Token(kind, part, match.start(), at, depth)
        if part in ("(", "[") or opens_type:
            depth += 1
        types += bool(opens_type) - bool(closes_type)
        before = (*before[-1:], part.lower())


def _comment_end(text: str, at: int) -> int:
    """Return the end of a comment whose text starts at a place."""
    depth = 1
    for mark in _COMMENT_MARK.finditer(text, at):
        depth += 1 if mark["opens"] else -1
        if not depth:
            return mark.end()
    raise ValueError("*/ after each /*")


def _items(body: list[_Token]) -> Iterator[list[_Token]]:
    """Split the list of a SELECT at its commas."""
    item: list[_Token] = []
    for token in body:
        if token.text == "," and not token.depth:
            yield item
            item = []
        else:
            item.append(token)
    yield item


def _named(text: str, item: list[_Token]) -> tuple[str, list[_Token]]:
    """Return the name of a column, and its expression."""
    if len(item) >= 3 and item[-2].word == "as":
        return item[-1].text.strip("`").lower(), item[:-2]
    if len(item) == 1 and item[0].kind in ("word", "quoted"):
        return item[0].text.strip("`").lower(), item
    shown = text[item[0].begin : item[-1].end] if item else ""
    raise ValueError(f"AS key, AS value or AS headers after {shown or 'each expression'}")


def _exploded(text: str, expression: list[_Token]) -> str:
    """Return the argument of ``explode``; "" if the expression is not a call of it."""
    if len(expression) < 4 or expression[0].word != "explode" or expression[1].text != "(":
        return ""
    inside = expression[2:-1]
    if expression[-1].text != ")" or not all(token.depth for token in inside):
        return ""
    return text[inside[0].begin : inside[-1].end]


def _needs_more(token: _Token) -> str:
    operator = _OPERATORS.get(token.word)
    if operator is None:
        return f"WHERE after FROM records, not {token.text}"
    return (
        f"no {token.text.upper()}: its plan has the operator {operator}, which needs more than "
        "the record itself"
    )
