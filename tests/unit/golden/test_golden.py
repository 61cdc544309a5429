"""Every writer writes the bytes of ``written.json``, and every reader reads them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from k2ktui.engine.deleted_logs import deleted_log_key, deleted_log_value
from k2ktui.engine.moves.journal import StateRecord, record_key
from k2ktui.engine.moves.journal_format import (
    read_state_key,
    read_state_value,
    state_key,
    state_value,
)
from k2ktui.engine.moves.plan import Plan, dump_plan, load_plan
from k2ktui.engine.records.moved_topic import moved_topic_key, moved_topic_value
from k2ktui.engine.records.producer_registration import registration_key, registration_value
from k2ktui.engine.records.state import (
    MappingRecord,
    mapping_key,
    mapping_value,
    position_key,
    position_value,
    read_commit_record,
    read_mapping_record,
    run_key,
    run_value,
)
from k2ktui.jobs.job_directory import JobDirectory, JobRecord, Phase
from k2ktui.watch.codec import dumps, loads
from tests.unit.engine.test_plan import PLAN
from tests.unit.fuzz.parsers import (
    ALONE,
    AT,
    COPIED_POSITION,
    DELETED_LOG,
    MOVED_TOPIC,
    POSITION,
    RANGES,
    REGISTRATION,
    RUN,
    RUNS,
    STATE,
)

GOLDEN: dict[str, list[str]] = json.loads((Path(__file__).parent / "written.json").read_text())
HOSTILE = 'g"\\\u2028\x1bü'
PLANS = {
    "plan": PLAN,
    "plan, hostile": replace(
        PLAN,
        pipeline=HOSTILE,
        files=(f"/{HOSTILE}.yaml",),
        created_at=1_795_252_312.786,
        rows=(replace(PLAN.rows[0], group=HOSTILE, metadata=HOSTILE, current=None),),
    ),
}
JOB = JobRecord(
    "a1", "p", "g", ("/p.yaml", "/q.yaml"), "/home/ops", False, "production", True, 4711,
    "1.25", "bastion", HOSTILE, "0.1.0", 1_795_252_312.786, Phase.ENDED, 7, 4, 1_795_252_400.0, 1,
    "why", 3,
)  # fmt: skip
JOBS = {"job": JOB, "job, running": replace(JOB, phase=Phase.RUNNING, ended_at=None, code=None)}
VIEWS = ("view", "view beside MirrorMaker 2")
# Of several records of a type, the first one has the type's name.
STATES = {
    f"state: {type(record).__name__}"
    + (
        f" {number}" if (number := sum(type(one) is type(record) for one in STATE[:at])) else ""
    ): record
    for at, record in enumerate(STATE)
}
MAPPINGS = {"mapping: ranges": RANGES, "mapping: runs": RUNS}


def written() -> dict[str, list[str]]:
    """Everything as it is written now."""
    records = {
        "position": [position_key("g", AT), position_value(POSITION)],
        "position, copied": [position_key("g", AT), position_value(COPIED_POSITION)],
        "run": [run_key("g"), run_value(RUN)],
        "run, alone": [run_key("g"), run_value(ALONE)],
        "producer": [registration_key("g", 4711), registration_value(REGISTRATION)],
        "deleted log": [deleted_log_key("g", DELETED_LOG), deleted_log_value(DELETED_LOG)],
        "moved topic": [moved_topic_key("g", MOVED_TOPIC.topic), moved_topic_value(MOVED_TOPIC)],
        **{
            name: [mapping_key(mapping), mapping_value(mapping)]
            for name, mapping in MAPPINGS.items()
        },
        **{
            name: [state_key("g", record_key(state)), state_value(state)]
            for name, state in STATES.items()
        },
    }
    texts = {name: [part.decode() for part in parts] for name, parts in records.items()}
    texts |= {name: [dump_plan(plan)] for name, plan in PLANS.items()}
    return texts


def test_all_is_written_as_ever() -> None:
    grown = {*VIEWS, *JOBS}
    expected = {name: texts for name, texts in GOLDEN.items() if name not in grown}
    assert written() == expected


@pytest.mark.parametrize("name", JOBS)
def test_jobs_are_written(name: str, tmp_path: Path) -> None:
    JobDirectory(tmp_path).write(JOBS[name])
    text = (tmp_path / "job.json").read_text()
    assert _holds(json.loads(text), json.loads(GOLDEN[name][0]))


def test_positions_and_runs_are_read() -> None:
    for name, expected in (
        ("position", ("g", AT, POSITION)),
        ("position, copied", ("g", AT, COPIED_POSITION)),
        ("run", ("g", None, RUN)),
        ("run, alone", ("g", None, ALONE)),
        ("producer", ("g", None, REGISTRATION)),
        ("deleted log", ("g", None, DELETED_LOG)),
        ("moved topic", ("g", None, MOVED_TOPIC)),
    ):
        key, value = (text.encode() for text in GOLDEN[name])
        assert read_commit_record(key, value) == expected


@pytest.mark.parametrize("name", MAPPINGS)
def test_mappings_are_read(name: str) -> None:
    key, value = (text.encode() for text in GOLDEN[name])
    expected: MappingRecord = MAPPINGS[name]
    assert read_mapping_record(key, value) == expected


@pytest.mark.parametrize("name", STATES)
def test_state_is_read(name: str) -> None:
    key, value = (text.encode() for text in GOLDEN[name])
    group, kind = read_state_key(key)
    expected: StateRecord = STATES[name]
    assert group == "g" and kind is not None and read_state_value(kind, value) == expected


@pytest.mark.parametrize("name", PLANS)
def test_plans_are_read(name: str) -> None:
    expected: Plan = PLANS[name]
    assert load_plan(GOLDEN[name][0], 1500.0) == expected


@pytest.mark.parametrize("name", JOBS)
def test_jobs_are_read(name: str, tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text(GOLDEN[name][0])
    assert JobDirectory(tmp_path).read() == JOBS[name]


@pytest.mark.parametrize("name", VIEWS)
def test_views_are_read(name: str) -> None:
    text = GOLDEN[name][0]
    assert _holds(json.loads(dumps(loads(text))), json.loads(text))


def _holds(now: object, then: object) -> bool:
    """Whether it is written as it was; later releases may add fields to objects and tables."""
    if isinstance(then, dict) and isinstance(now, dict):
        if "columns" in then:
            return _holds(_objects(now), _objects(then))
        return all(key in now and _holds(now[key], value) for key, value in then.items())
    if isinstance(then, list) and isinstance(now, list):
        return len(now) == len(then) and all(map(_holds, now, then))
    return now == then


def _objects(table: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
