"""State records: what is written is read back, and nothing damaged is taken for ours."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.moves.groups import CommittedOffset
from k2ktui.engine.moves.journal import (
    BEGUN,
    LARGEST_SEQUENCE,
    SYNC,
    CommitSnapshot,
    JournalHeader,
    JournalKey,
    JournalRow,
    JournalRows,
    RunKind,
    Runner,
    RunnerKey,
    RunnerState,
    SnapshotKey,
    StateKey,
    StateRecord,
    find_outdated,
    next_sequence,
    record_key,
)
from k2ktui.engine.moves.journal_format import (
    read_state_key,
    read_state_value,
    state_key,
    state_value,
)
from k2ktui.engine.moves.pipeline_summary import GroupCount, PipelineSummary
from k2ktui.engine.records.state import MalformedRecord
from k2ktui.engine.severity import Severity

offsets = st.integers(0, 2**62)
times = st.integers(0, 2**45)
names = st.text(min_size=1, max_size=60)
texts = st.text(max_size=60)
partitions = st.integers(0, 100_000)
runners = st.builds(
    Runner,
    runner=names,
    host=texts,
    user=texts,
    pid=st.integers(1, 2**22),
    started_ms=times,
    at_ms=times,
    state=st.sampled_from([s for s in RunnerState if s is not RunnerState.SILENT]),
    lap=offsets,
    slots=st.integers(0, 1000),
    lag_records=st.none() | offsets,
    last_error=texts,
    version=texts,
)
snapshots = st.builds(
    CommitSnapshot,
    names,
    texts,
    times,
    texts,
    st.dictionaries(
        st.tuples(names, partitions), st.builds(CommittedOffset, offsets, texts), max_size=4
    ),
)
headers = st.builds(
    JournalHeader,
    id=names,
    at_ms=times,
    who=texts,
    operation=texts,
    plan=texts,
    pipeline=texts,
    counts=st.dictionaries(texts, offsets, max_size=3),
    undoes=texts,
)
optional = st.none() | offsets
rows = st.builds(JournalRow, names, partitions, optional, texts, optional, texts, texts)
parts = st.builds(JournalRows, names, names, st.lists(rows, max_size=4).map(tuple))
summaries = st.builds(
    PipelineSummary,
    times,
    offsets,
    offsets,
    st.lists(st.builds(GroupCount, st.sampled_from(Severity), texts, offsets), max_size=3).map(
        tuple
    ),
    offsets,
    offsets,
)
records = st.one_of(runners, snapshots, headers, parts, summaries)


def read(group: str, record: StateRecord, value: bytes) -> StateRecord:
    read_group, key = read_state_key(state_key(group, record_key(record)))
    assert key is not None
    assert (read_group, key) == (group, record_key(record))
    return read_state_value(key, value)


@given(names, records)
def test_records_survive(group: str, record: StateRecord) -> None:
    assert read(group, record, state_value(record)) == record


@given(names, records)
def test_keys_begin_alike(group: str, record: StateRecord) -> None:
    start = json.dumps({"group": group}, separators=(",", ":"), ensure_ascii=False)[:-1]
    assert state_key(group, record_key(record)).decode().startswith(f'{start},"kind":"')


@given(names, records, records)
def test_two_records_share_a_key_only_if_they_are_the_same_thing(
    group: str, a: StateRecord, b: StateRecord
) -> None:
    keys = record_key(a), record_key(b)
    assert (state_key(group, keys[0]) == state_key(group, keys[1])) == (keys[0] == keys[1])


WRONG: list[Any] = [None, True, "x", -0.5, [], {}, [["t"]]]


@given(records, st.data())
def test_damaged_values_are_malformed(record: StateRecord, data: st.DataObject) -> None:
    """A field that is missing, or of another kind, and a value that was cut."""
    whole = state_value(record)
    body = json.loads(whole)
    name = data.draw(st.sampled_from(sorted(body)))
    lacking = {key: value for key, value in body.items() if key != name}
    nonsense = data.draw(st.sampled_from(WRONG))
    changed = {**body, name: nonsense}
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    damaged = [json.dumps(lacking).encode(), cut]
    if not _fits(name, nonsense):
        damaged.append(json.dumps(changed).encode())
    for value in damaged:
        with pytest.raises(MalformedRecord):
            read("g", record, value)


def _fits(name: str, value: Any) -> bool:
    allowed: dict[str, object] = {
        "lag": None,
        "counts": {},
        "offsets": [],
        "rows": [],
        "groups": [],
    }
    if name in allowed:
        return bool(value == allowed[name] and type(value) is type(allowed[name]))
    numbers = {
        "at",
        "covered",
        "lost",
        "reread",
        "retained",
        "lap",
        "pid",
        "slots",
        "startedAt",
        "v",
    }
    return isinstance(value, str) and name not in numbers


def test_a_foreign_state_of_a_runner_is_malformed() -> None:
    value = state_value(Runner("r", "h", "u", 1, 0, 0, RunnerState.RUNNING))
    with pytest.raises(MalformedRecord):
        read_state_value(RunnerKey("r"), value.replace(b'"running"', b'"dancing"'))


@pytest.mark.parametrize(
    "key",
    [
        None,
        b"",
        b"\xff",
        b"[]",
        b"[" * 100_000,
        b"{}",
        b'{"group":"g"}',
        b'{"group":"g","kind":"else"}',
        b'{"group":"g","kind":["runner"]}',
        b'{"group":7,"kind":"runner","runner":"r"}',
        b'{"group":"g","kind":"runner"}',
        b'{"group":"g","kind":"commits","consumerGroup":null}',
        b'{"group":"g","kind":"journal","id":"i"}',
    ],
)
def test_foreign_keys_are_malformed(key: bytes | None) -> None:
    with pytest.raises(MalformedRecord):
        read_state_key(key)


def test_the_formats_are_as_documented() -> None:
    """Byte by byte, since others read them."""
    runner = Runner("a-1", "h", "u", 7, 1, 2, RunnerState.RUNNING, 3, 4, 5, "", "0.1.0")
    assert state_key("g", runner.key) == b'{"group":"g","kind":"runner","runner":"a-1"}'
    assert state_value(runner) == (
        b'{"at":2,"host":"h","lag":5,"lap":3,"lastError":"","pid":7,"slots":4,"startedAt":1,'
        b'"state":"running","user":"u","v":1,"version":"0.1.0"}'
    )
    reported = state_value(replace(runner, term=6, commit_ms=4.2))
    assert reported.startswith(b'{"at":2,"commitMs":4.2,"host":"h"')
    assert b'"state":"running","term":6,"user":"u"' in reported
    assert read_state_value(runner.key, reported) == replace(runner, term=6, commit_ms=4.2)
    sharing = replace(runner, generation=7, owned=(0, 2))
    assert b'"at":2,"generation":7,"host"' in state_value(sharing)
    assert b'"lastError":"","owned":[0,2],"pid":7' in state_value(sharing)
    assert read_state_value(runner.key, state_value(sharing)) == sharing
    for damaged in b'"owned":0', b'"owned":["0"]', b'"owned":[-1]', b'"owned":[1000000]':
        with pytest.raises(MalformedRecord):
            read_state_value(runner.key, state_value(sharing).replace(b'"owned":[0,2]', damaged))
    sync = replace(runner, kind=RunKind.SYNC)
    assert b'"host":"h","kind":"sync","lag":5' in state_value(sync)
    assert read_state_value(runner.key, state_value(sync)) == sync
    with pytest.raises(MalformedRecord, match="an unknown kind of run"):
        read_state_value(runner.key, state_value(sync).replace(b'"sync"', b'"dance"'))
    snapshot = CommitSnapshot("app", "c", 9, "Stable", {("t", 0): CommittedOffset(12, "m")})
    earlier = b'{"group":"g","kind":"commits","consumerGroup":"app"}'
    assert state_key("g", snapshot.key) == earlier[:-1] + b',"cluster":"c"}'
    assert state_key("g", replace(snapshot, names_cluster=False).key) == earlier
    assert state_value(snapshot) == (
        b'{"at":9,"cluster":"c","offsets":[["t",0,12,"m"]],"state":"Stable","v":1}'
    )
    header = JournalHeader("i", 9, "u@h", "apply", "p1", "orders", {"ok": 2}, "")
    assert state_key("g", header.key) == (
        b'{"group":"g","kind":"journal","consumerGroup":"","id":"i"}'
    )
    assert state_value(header) == (
        b'{"at":9,"counts":{"ok":2},"pipeline":"orders","plan":"p1","undoes":"","v":1,'
        b'"what":"apply","who":"u@h"}'
    )
    part = JournalRows("i", "app", (JournalRow("t", 0, None, "", 12, "m", "ok"),))
    assert state_key("g", part.key) == (
        b'{"group":"g","kind":"journal","consumerGroup":"app","id":"i"}'
    )
    assert state_value(part) == b'{"rows":[["t",0,null,"",12,"m","ok"]],"v":1}'


@pytest.mark.parametrize(
    ("state", "age_ms", "standing", "alive"),
    [
        (RunnerState.RUNNING, 15_000, RunnerState.RUNNING, True),
        (RunnerState.RUNNING, 15_001, RunnerState.SILENT, False),
        (RunnerState.STARTING, 0, RunnerState.STARTING, True),
        (RunnerState.STOPPING, 20_000, RunnerState.SILENT, False),
        (RunnerState.STOPPED, 1, RunnerState.STOPPED, False),
        (RunnerState.STOPPED, 10**9, RunnerState.STOPPED, False),
        (RunnerState.RUNNING, -60_000, RunnerState.RUNNING, True),
    ],
)
def test_who_is_silent(state: RunnerState, age_ms: int, standing: RunnerState, alive: bool) -> None:
    now = 10**12
    runner = Runner("r", "h", "u", 1, 0, now - age_ms, state)
    assert (runner.standing(now), runner.alive(now)) == (standing, alive)


def header(name: str, sequence: int, what: str = "apply", **counts: int) -> JournalHeader:
    return JournalHeader(name, 0, "u@h", what, counts=counts, sequence=sequence)


@given(
    st.dictionaries(
        st.text("0123456789abcdef", min_size=4, max_size=4),
        st.tuples(st.integers(0, 9), st.sampled_from(["apply", SYNC]), st.booleans()),
    )
)
def test_the_newest_entries_of_each_kind_are_kept(
    made: dict[str, tuple[int, str, bool]],
) -> None:
    entries = {
        name: header(name, number, what, **({BEGUN: 1} if begun else {"applied": 1}))
        for name, (number, what, begun) in made.items()
    }
    gone = set(find_outdated(entries, keep=3))
    for kind in {(what, begun) for _, what, begun in made.values()}:
        mine = sorted((n, name) for name, (n, what, begun) in made.items() if (what, begun) == kind)
        assert gone & {name for _, name in mine} == {name for _, name in mine[:-3]}


def test_what_sync_does_pushes_out_no_operators_entry() -> None:
    entries = {"op": header("op", 1), "going-on": header("going-on", 2, "apply", **{BEGUN: 3})}
    entries |= {f"s{n:03}": header(f"s{n:03}", 3 + n, SYNC, applied=1) for n in range(300)}
    gone = find_outdated(entries)
    assert gone == [f"s{n:03}" for n in range(100)]


def test_an_entry_that_is_being_written_stays_whatever_its_time() -> None:
    """A host whose clock is behind began entries that its own writing removed at once."""
    entries = {f"2026-{n:03}": header(f"2026-{n:03}", n) for n in range(1, 4)}
    entries["1999"] = header("1999", 0)
    assert find_outdated(entries, {"1999"}, keep=3) == ["2026-001"]
    assert find_outdated(entries, keep=3) == ["1999"]


def test_sequence_numbers_only_grow() -> None:
    assert next_sequence([]) == 1
    assert next_sequence([header("b", 7), header("a", 3)]) == 8
    assert next_sequence([header("a", LARGEST_SEQUENCE)]) == LARGEST_SEQUENCE


def test_keys_of_parts_sort_by_entry() -> None:
    assert JournalKey("a", "z") < JournalKey("b")
    keys: set[StateKey] = {SnapshotKey("a"), RunnerKey("a")}
    assert len(keys) == 2
