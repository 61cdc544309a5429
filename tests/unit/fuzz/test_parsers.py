"""What others wrote never stops a program: each parser reads it, or raises its one error."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from tests.unit.fuzz.parsers import Pair, Parser, parsers

NAMES = sorted(parsers(Path()))
_SECONDS = 20.0

# What has stopped programs before, as text: json.dumps cannot write some of it.
HOSTILE = [
    b"1e999",
    b"-1e999",
    b"NaN",
    b"Infinity",
    b"true",
    b"null",
    b"-1",
    b"1.5",
    b"1000000000000",
    b"9223372036854775807",
    b"9223372036854775808",
    b"9" * 400,
    b"9" * 5000,
    b"[]",
    b"{}",
    b"[",
    b'{"fenced":1}',
    b'{"fenced":{"a":[1e999,1]}}',
    b'{"term":1,"fenced":{"a":[1e999,1]}}',
    b"[[]]",
    b"[[1]]",
    b"[1,2,3]",
    b"[[1,2,3]]",
    b'[[0,0,"x"]]',
    b"[" * 200 + b"]" * 200,
    b"[" * 900 + b"]" * 900,
    b"[" * 100_000,
    b'{"a":' * 900 + b"1" + b"}" * 900,
    b"[" + b"0," * 50_000 + b"0]",
    b'""',
    b'"x"',
    b'"\\ud800"',
    b'"\\u0000"',
    b'"\xff"',
    b'"\xed\xa0\x80"',
    b'"silent"',
    b'{"offset":1,"offset":2}',
]
_MARK = "\N{SNOWMAN}here\N{SNOWMAN}"


def places_of(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value in a JSON value."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [path, *(place for key, item in inner for place in places_of(item, (*path, key)))]


def put_at(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = put_at(copy[path[0]], path[1:], new)
    return copy


@st.composite
def mutated(draw: st.DrawFn, raw: bytes | None) -> bytes | None:
    """A record that was real once: one value replaced, a field lost or twice, or bytes changed."""
    if raw is None or draw(st.integers(0, 9)) == 0:
        return draw(st.none() | st.binary(max_size=40))
    if draw(st.booleans()):
        lines = raw.split(b"\n")
        number = draw(st.integers(0, len(lines) - 1))
        try:
            value = json.loads(lines[number])
        except ValueError:
            pass
        else:
            lines[number] = draw(_changed(value))
            return b"\n".join(lines)
    at = draw(st.integers(0, len(raw)))
    end = draw(st.integers(at, min(len(raw), at + 8)))
    return raw[:at] + draw(st.binary(max_size=8) | st.sampled_from(HOSTILE)) + raw[end:]


@st.composite
def _changed(draw: st.DrawFn, value: Any) -> bytes:
    places = places_of(value)
    path = draw(st.sampled_from(places))
    if path and isinstance(path[-1], str) and draw(st.integers(0, 5)) == 0:
        parent = value
        for key in path[:-1]:
            parent = parent[key]
        without = {key: item for key, item in parent.items() if key != path[-1]}
        return json.dumps(put_at(value, path[:-1], without), separators=(",", ":")).encode()
    marked = json.dumps(put_at(value, path, _MARK), separators=(",", ":"), ensure_ascii=False)
    replaced = draw(st.sampled_from(HOSTILE))
    return marked.encode().replace(json.dumps(_MARK, ensure_ascii=False).encode(), replaced)


def pairs(parser: Parser) -> st.SearchStrategy[Pair]:
    """Keys and values: mutated records, half of them with one part as it was, and noise."""
    noise = st.none() | st.binary(max_size=60) | st.sampled_from(HOSTILE)
    real = st.sampled_from(parser.real)
    return st.one_of(
        real.flatmap(lambda pair: st.tuples(st.just(pair[0]), mutated(pair[1]))),
        real.flatmap(lambda pair: st.tuples(mutated(pair[0]), st.just(pair[1]))),
        st.tuples(noise, noise),
    )


def fuzz(parser: Parser, examples: int, start: int) -> None:
    """Let a parser read so many records."""

    @seed(start)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(pairs(parser))
    def reads(pair: Pair) -> None:
        began = time.process_time()
        try:
            parser.read(*pair)
        except Exception as error:
            if parser.malformed is None or not isinstance(error, parser.malformed):
                raise
        assert time.process_time() - began < 5.0, "it hangs"

    reads()


@pytest.mark.parametrize("name", NAMES)
def test_real_records_are_read(name: str, tmp_path: Path) -> None:
    parser = parsers(tmp_path)[name]
    assert parser.real
    for pair in parser.real:
        parser.read(*pair)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_stops_a_parser(name: str, tmp_path: Path) -> None:
    fuzz(parsers(tmp_path)[name], 60, 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_nothing_stops_a_parser_for_a_while(name: str, tmp_path: Path) -> None:
    """All parsers share some seconds; each round has another seed, reported when it fails."""
    parser = parsers(tmp_path)[name]
    until, rounds = time.monotonic() + _SECONDS / len(NAMES), int(time.time())
    while time.monotonic() < until:
        rounds += 1
        try:
            fuzz(parser, 200, rounds)
        except BaseException:
            print(f"seed {rounds}")
            raise
