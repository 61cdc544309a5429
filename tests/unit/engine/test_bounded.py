"""Files that pydantic reads: every field has its exact type and its bounds."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from k2ktui.engine.bounded import Count, read_as
from k2ktui.engine.moves import plan
from k2ktui.engine.moves.plan import UnusablePlan, dump_plan
from k2ktui.engine.strict_json import MalformedRecord
from k2ktui.jobs.job_directory import JobDirectory
from tests.unit.engine.test_plan import PLAN
from tests.unit.fuzz.parsers import JOB
from tests.unit.fuzz.test_parsers import places_of, put_at

# What is written in place of a value of each type; null is allowed where there may be no offset.
WRONG: dict[type, tuple[str, ...]] = {
    str: ("5", "true", "null", "[]", "{}", '"\\ud800"', '["a"]'),
    bool: ("0", "1", '"true"', "null", "[]"),
    int: ("true", '"5"', "1.0", "[]", "{}", "-9223372036854775809", "9223372036854775808", "1e999"),
    float: ('"1"', "true", "[]", "-1", "NaN", "1e999", "253402300801"),
    list: ("{}", '{"0":[]}', '"x"', "5", "null", "[5]", "[[]]", '["\\ud800"]', '[{"a":1}]'),
    dict: ("[]", "{}", '"x"', "5", "null"),
    type(None): ("true", '"5"', "[]", "{}"),
}
_MARK = "\N{SNOWMAN}here"


def spoiled(text: str) -> Iterator[tuple[str, str]]:
    """Every record with one value of another type or out of bounds, or without one field."""
    whole = json.loads(text)
    for path in places_of(whole):
        inner = whole
        for key in path:
            inner = inner[key]
        marked = json.dumps(put_at(whole, path, _MARK))
        for wrong in WRONG[type(inner)]:
            yield f"{path}: {wrong}", marked.replace(json.dumps(_MARK), wrong)
        if path and isinstance(path[-1], str):
            parent: Any = whole
            for key in path[:-1]:
                parent = parent[key]
            lacking = {key: value for key, value in parent.items() if key != path[-1]}
            yield f"{path} is missing", json.dumps(put_at(whole, path[:-1], lacking))


def test_no_spoiled_plan_is_read() -> None:
    text = dump_plan(PLAN)
    plan.read(text)
    for name, bad in spoiled(text):
        if "'id'" in name:
            continue  # repeats the beginning of the digest, for people
        with pytest.raises(UnusablePlan):
            pytest.fail(f"{name} is accepted: {plan.read(bad)}")


def test_no_spoiled_job_is_read(tmp_path: Path) -> None:
    file, job = tmp_path / "job.json", JobDirectory(tmp_path)
    file.write_bytes(JOB)
    assert job.read() is not None
    for name, bad in spoiled(JOB.decode()):
        file.write_text(bad)
        assert job.read() is None, name


def test_a_message_names_the_place_and_not_the_value() -> None:
    adapter = TypeAdapter(dict[str, list[Count]])
    with pytest.raises(MalformedRecord) as refused:
        read_as(adapter, {"offsets": [1, "hunter2" * 10_000]})
    assert str(refused.value) == "offsets.1: Input should be a valid integer"


def test_spark_tasks_do_not_load_pydantic() -> None:
    """Executors of a Spark cluster have only the packages that docs/spark-cluster.md names."""
    load = "import sys, k2ktui.replication.copying.worker, k2ktui.replication.copying.slot"
    code = f"{load}; sys.exit('pydantic' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
