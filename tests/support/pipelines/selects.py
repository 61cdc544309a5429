"""SELECTs of transforms with their parts, in all the ways in which Spark SQL may be written."""

from __future__ import annotations

import random
from dataclasses import dataclass

#: The columns that the expressions use, for Spark.
SCHEMA = (
    "key STRING, headers STRING, value STRUCT<a: STRING, order: STRING, from: STRING, map: STRING, "
    "`b``, c`: STRING, list: ARRAY<STRING>, pairs: MAP<STRING, STRING>, json: VARIANT, "
    "limit: STRING>"
)

_GAPS = (
    *[" "] * 4,
    "\n",
    "\t\r\n ",
    "/**/",
    " /* it's FROM, */ ",
    " /* a /* nested, */ 'comment */ ",
    " /* a hint /*+ does not nest */ ",
    " -- it's, FROM\n",
    ' -- "a\r',
    " -- goes on, \\\n FROM here\n",
    " -- /*\n",
    "\u00a0",
)
_LEAVES = (
    "key",
    "value.a",
    "VALUE . order",
    "value.from",
    "value.map",
    "value.`b``, c`",
    "value.list[0]",
    "value.json:order::STRING",
    "value.json:from.limit::string",
    "value.json:['a, b']::STRING",
    "value.list::ARRAY<STRING>[0]",
    "value.pairs::MAP<STRING, STRING>['a']",
    "value.json::STRUCT<a: ARRAY<STRUCT<b: STRING, c: DECIMAL(10, 2)>>, d: STRING>.d",
    "'it''s'",
    r"'it\'s, FROM'",
    r"'\\'",
    "'--'",
    "'/*'",
    "'a;b'",
    "'ümläut ✓\n'",
    '"a, FROM records WHERE"',
    r'"\""',
    '""""',
    r"r'\'",
    r'R"\d, ' "'\"",
    "'a' 'b'",
    "CAST(X'1F' AS STRING)",
    "CAST(-1.5e-3D AS STRING)",
    "string(10L)",
    "extract(year FROM DATE'2020-01-01')::STRING",
)


_EXPRESSIONS = (
    "( @ )",
    "@ || @",
    "@||@",
    "concat( @ , @ )",
    "trim(BOTH @ FROM @ )",
    "substring( @ FROM 2 FOR 3)",
    "overlay( @ PLACING @ FROM 1)",
    "CASE WHEN @ IS DISTINCT FROM @ THEN @ ELSE @ END",
    "case @ when @ then @ end",
    "string( @ IS NOT DISTINCT FROM @ )",
    "CAST( @ AS STRING )",
    "to_json(struct( @ AS key, @ AS `from`))",
    "element_at(transform(array( @ , @ ), (x, i) -> concat(x, 'a')), 1)",
    "named_struct('a', @ )::STRUCT<a: STRING>.a",
)
_COLUMNS = ("@", "@", "@::STRING < @")
_PREDICATES = (
    "@ = @",
    "@ IS DISTINCT FROM @",
    "@ NOT LIKE @",
    "@ IN ( @ , @ )",
    "value.json:order::STRING < @",
    "NOT ( value.limit > @ OR @ = key )",
    "exists(value.list, x -> x <=> @ ) AND @ <> @",
)


@dataclass(frozen=True, slots=True)
class Select:
    """A SELECT.

    Attributes:
        text: the statement.
        columns: the expression of each column; for ``exploded``, the array.
        exploded: the column that is an element of an array; "" for none.
        where: the predicate, with the comments around it; "" for none.
    """

    text: str
    columns: dict[str, str]
    exploded: str
    where: str


def make_select(seed: int) -> Select:
    """Return a SELECT and its parts."""
    return _Maker(random.Random(seed)).select()


class _Maker:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def select(self) -> Select:
        names = ["key", "value", "headers"][: self._chance.randint(2, 3)]
        self._chance.shuffle(names)
        exploded = self._chance.choice(["", *names])
        columns, items = {}, []
        for name in names:
            columns[name] = expression = self._filled(self._chance.choice(_COLUMNS), 0)
            if name == exploded:
                columns[name] = self._filled("array( @ , @ )", 1)
                expression = f"explode({self._gap(0)}{columns[name]}{self._gap(0)})"
            name = self._chance.choice([name, name.upper(), f"`{name}`"])
            items.append(f"{self._gap()}{expression}{self._gap()}AS{self._gap()}{name}")
        where = ""
        if self._chance.random() < 0.6:
            predicate = self._filled(self._chance.choice(_PREDICATES), 1)
            where = f"{self._gap()}{predicate}{self._gap(0)}"
        text = f"SELECT{f'{self._gap(0)},'.join(items)}{self._gap()}FROM{self._gap()}records"
        text += f"{self._gap()}where{where}" if where else self._gap(0)
        return Select(text, columns, exploded, where.strip())

    def _gap(self, least: int = 1) -> str:
        """Return what may be between two words."""
        return "".join(self._chance.choice(_GAPS) for _ in range(self._chance.randint(least, 1)))

    def _expression(self, depth: int = 0) -> str:
        if self._chance.random() < 0.3 + depth * 0.3:
            return self._chance.choice(_LEAVES)
        return self._filled(self._chance.choice(_EXPRESSIONS), depth + 1)

    def _filled(self, template: str, depth: int) -> str:
        """Return a template with expressions in place of @, and other gaps between its words."""
        first, *words = template.split(" ")
        spaced = first + "".join(self._gap() + word for word in words)
        before, *parts = spaced.split("@")
        return before + "".join(self._expression(depth) + part for part in parts)
