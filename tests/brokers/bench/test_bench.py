"""The benchmark counts right, measures right and judges right."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from bench import clusters, meter, orders, payments, targets, verify, watch
from bench.load import load, order_of, payment_of, value_of
from bench.model import KEY_BYTES, CopyResult, DataSet, DelayResult, MemoryResult, Results
from bench.plan import DATA_SETS, QUICK, Scope, tasks
from bench.report import markdown
from bench.run import Limits, done
from k2ktui.config.load import load as load_pipeline
from k2ktui.runtime.child_process import spawn
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    delete_topic,
    eventually,
    open_transaction,
    produce_transaction,
    unique_name,
)

ONE = CopyResult(
    contender="k2ktui",
    data="100-none-4-64k",
    records=1000,
    bytes=100_000,
    visible=1000,
    distinct=1000,
    before_first=100,
    first_record_s=5.0,
    all_records_s=6.0,
    cpu_start_s=10.0,
    cpu_s=10.5,
    rss_peak=500_000_000,
)


def run(contender: str, **changes: object) -> CopyResult:
    return replace(ONE, contender=contender, **changes)  # type: ignore[arg-type]


def test_only_chooses_by_pattern_and_by_part() -> None:
    names = [task.name for task in tasks(QUICK, [])]
    assert names[0] == "copy/mm2-tuned/perf-1000-none-4-16k"
    assert names[5:8] == ["delay/mm2-eos", "delay/mm2-eos-tuned", "delay/k2ktui"]
    assert len(set(names)) == len(names)
    memory = [task.name for task in tasks(QUICK, ["memory"])]
    assert memory == ["memory/k2ktui", "memory/k2ktui-transform"]
    payments = {task.contender.key for task in tasks(QUICK, ["copy/*/json-*"])}
    assert payments == {"mm2-eos-transform", "mm2-eos-tuned-transform", "k2ktui-transform"}
    names = [task.name for task in tasks(QUICK, ["copy/mm2*/1000-none-4-*"])]
    assert names == [
        f"copy/{one}/1000-none-4-{kib}k"
        for kib in (16, 4, 64, 1)
        for one in ("mm2-tuned", "mm2-eos-tuned")
    ]


def test_a_data_set_is_found_by_its_name() -> None:
    for data in (*DATA_SETS, DataSet(100, "lz4", 4, 5, "schemas")):
        assert DataSet.named(data.name, data.records) == data
    with pytest.raises(ValueError, match="1000-none-4"):
        DataSet.named("1000-none-4", 1)


def test_only_a_run_of_the_same_commit_is_done() -> None:
    (task,) = tasks(QUICK, ["copy/k2ktui/100-none-4-64k"])
    results = Results(copies=[run("k2ktui", commit="abc")])
    assert done(results, task, "abc")
    assert not done(results, task, "def")
    assert not done(Results(copies=[run("k2ktui", commit="abc", error="no")]), task, "abc")
    (delayed,) = tasks(QUICK, ["delay/k2ktui"])
    assert not done(results, delayed, "abc")


def test_a_limit_leaves_the_rest() -> None:
    assert not Limits().reached(1_000_000)
    assert [Limits(rows=2).reached(rows) for rows in (0, 1, 2)] == [False, False, True]
    assert Limits(until=time.monotonic()).reached(0)


def test_rows_of_another_commit_are_named_and_do_not_count() -> None:
    new, old = {"commit": "new", "date": "2026-11-27"}, {"commit": "old", "date": "2026-11-23"}
    peers = [run("mm2-tuned", **old), run("mm2-eos-tuned", **new)]
    results = Results(copies=[run("k2ktui", **new), *peers])
    assert results.commit == "new"
    assert not any(one.met for one in targets.verdicts(results) if "tuned" in one.text)
    text = markdown(results)
    assert "| **2026-11-23 at old** |" in text and "at new**" not in text


def test_the_pipelines_are_valid(tmp_path: Path) -> None:
    from bench.model import Job
    from bench.ours import variants

    for one in variants():
        job = Job("r001", "127.0.0.1:1", "127.0.0.1:2", "some-topic", tmp_path)
        launch = one.prepare(job)
        config = load_pipeline([tmp_path / "pipeline.yaml"]).config
        assert config.features.exactly_once == one.exactly_once
        assert config.topics.matches("some-topic")
        assert (config.replication.transform_for("some-topic") is not None) == one.transforms
        assert config.topic_mapping.target_for("some-topic") == launch.target_topic
        assert "--until-caught-up" in launch.command
        assert "--until-caught-up" not in one.prepare(replace(job, steady=True)).command


@pytest.mark.slow
def test_counts_only_what_was_committed_and_sees_repeats(target: KafkaNode) -> None:
    data = DataSet(100, "lz4", 2, 3000)
    load(target.bootstrap, data, processes=2)
    ends = clusters.end_offsets(target.bootstrap, data.topic, 2)
    assert verify.count(target.bootstrap, data.topic, ends) == verify.Found(3000, 3000, 3000)
    again = [value_of(number, 100) for number in range(5)]
    produce_transaction(target, data.topic, again)
    produce_transaction(target, data.topic, again, commit=False)
    left_open = open_transaction(target, data.topic, again)
    counted = verify.count(target.bootstrap, data.topic, (ends[0], 0))
    assert counted == verify.Found(3005, 3000, ends[0])
    left_open.abort_transaction(TIMEOUT)


def test_watches_what_becomes_visible(target: KafkaNode) -> None:
    topic = unique_name()
    watcher = watch.Watcher(target.bootstrap, topic, 2)
    watcher.start()
    try:
        clusters.create_topic(target.bootstrap, topic, 2)
        transaction = open_transaction(target, topic, [b"a", b"b"])
        time.sleep(0.5)
        assert not watcher.changes
        transaction.commit_transaction(TIMEOUT)
        clusters.wait_for(lambda: watcher.last_change.total == 3, "the commit is seen", TIMEOUT)
    finally:
        watcher.stop()
        delete_topic(target, topic)


# Each process notes what it has used, with its start: on a slow machine that is not little.
BUSY = """
import os, pathlib, subprocess, sys, time
def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass
    pathlib.Path(sys.argv[2], str(os.getpid())).write_text(str(time.process_time()))
if sys.argv[1] == "leaf":
    burn(1.0)
else:
    subprocess.run([sys.executable, __file__, "leaf", sys.argv[2]])  # ended, and waited for
    if os.fork() == 0:                                             # left behind, by its parent
        os.setsid()
        if os.fork() == 0:
            burn(1.0)
        os._exit(0)
    burn(1.0)
    time.sleep(60)
"""


def test_measures_the_whole_tree_once(tmp_path: Path) -> None:
    """CPU time of a child that ended, one left behind and the parent: 3 s, not less, not more."""
    import psutil

    script, notes = tmp_path / "busy.py", tmp_path / "notes"
    script.write_text(BUSY)
    notes.mkdir()
    command = [sys.executable, str(script), "root", str(notes)]
    child = spawn(command, log_path=tmp_path / "log")
    root = psutil.Process(child.pid).ppid()
    measured = meter.Meter(root, 0.05)
    measured.start()

    def used() -> list[float]:
        return [float(note.read_text() or 0) for note in notes.iterdir()]

    try:
        eventually(lambda: len(used()) == 3 and all(used()), "all three have ended their work")
        own = sum(used()) - 0.1  # the kernel tells of whole hundredths, for each process
        eventually(lambda: measured.cpu_at(time.monotonic()) >= own, "all is measured")
        time.sleep(1.0)
    finally:
        measured.stop()
        child.stop(5.0)
    # One that is counted twice, such as a child that its parent has waited for, would add 1 s.
    assert own <= measured.cpu_at(time.monotonic()) < own + 1.0
    assert 5_000_000 < measured.peak(time.monotonic()) < 200_000_000


def test_rates_leave_out_what_was_there_at_first_sight() -> None:
    assert ONE.rate == 900
    assert ONE.cpu_per_gb == pytest.approx(0.5 / 90e-6)
    assert ONE.rate_from_start == pytest.approx(1000 / 6)
    assert replace(ONE, before_first=900).rate is None


def test_verdicts_are_computed() -> None:
    peers = [
        run("mm2-tuned", before_first=0, all_records_s=9.0, cpu_s=15.0),
        run("mm2-eos-tuned", before_first=0, all_records_s=8.5, cpu_s=14.4),
        run("mm2-eos", before_first=0, all_records_s=20.0),
        run("k2ktui-records", before_first=0, all_records_s=10.0, first_record_s=9.0),
    ]
    verdicts = {one.text: one for one in targets.verdicts(Results(copies=[ONE, *peers]))}
    usual = verdicts[f"{OVER}: none, lz4, snappy"]
    assert (usual.found, usual.met) == ("3.15 x", True)
    assert verdicts[f"{OVER}: 100 B, not zstd"].met is False
    default = verdicts["64 KiB: records/s over its exactly-once default, 100 B"]
    assert (default.found, default.met) == ("13.50 x", True)
    cpu = verdicts["CPU per GB over tuned MirrorMaker 2, uncompressed"]
    assert (cpu.found, cpu.met) == ("1/7.9", True)
    assert verdicts["record path: records/s over exactly-once"].met is True
    assert verdicts["start to first record, warm"].met is False
    assert verdicts[f"{OVER}: zstd"].met is None


def test_targets_depend_on_the_codec() -> None:
    """Uncompressed twice the peer and a third of its CPU time, in zstd 1.5 times and a half."""

    def found(codec: str, tuned_s: float, **changes: float) -> dict[str, targets.Verdict]:
        data = f"1000-{codec}-4-4k"
        peers = [
            run(key, data=data, all_records_s=5 + seconds, cpu_s=10 + cpu)
            for key, seconds, cpu in (
                ("mm2-tuned", tuned_s, 2.0),
                ("mm2-eos-tuned", tuned_s + 1, 2.0),
                ("mm2-tuned-codec", tuned_s + 2, 4.0),
            )
        ]
        copies = [run("k2ktui", data=data, **changes), *peers]
        return {one.text: one for one in targets.verdicts(Results(copies=copies))}

    cpu = "CPU per GB over tuned MirrorMaker 2"
    usual, zstd = f"{OVER}: none, lz4, snappy", f"{OVER}: zstd"
    same = f"{OVER} that writes the source's codec"
    slower = "rows slower than MirrorMaker 2 in records/s or median delay"
    raw = found("none", 2.0)
    assert (raw[usual].met, raw[f"{cpu}, uncompressed"].met) == (True, True)
    assert (raw[zstd].met, raw[f"{cpu}, compressed"].met) == (None, None)
    raw = found("none", 1.9, cpu_s=10.9)
    assert (raw[usual].met, raw[f"{cpu}, uncompressed"].met) == (False, False)
    packed = found("zstd", 1.6, cpu_s=10.9)
    assert (packed[zstd].met, packed[f"{cpu}, compressed"].met) == (True, True)
    assert (packed[usual].met, packed[same].found) == (None, "3.60 x")
    assert found("zstd", 1.4, cpu_s=11.1)[zstd].met is False
    assert found("lz4", 1.1)[slower].found == "0"
    assert found("lz4", 0.5)[slower].cells == (("1000-lz4-4-4k", "0.50 x"),)


def test_delays_have_bounds_of_their_own() -> None:
    delays = [DelayResult("k2ktui", 5000, 30.0, 4, 10, 10, 19.9, 30.0, 52.5, 60.0, 0.1)]
    verdicts = {one.text: one for one in targets.verdicts(Results(delays=delays))}
    assert (verdicts["delay, median"].found, verdicts["delay, median"].met) == ("19.9 ms", False)
    assert (verdicts["delay, p99"].found, verdicts["delay, p99"].met) == ("52.5 ms", False)
    assert verdicts["filter and mask: delay, p99"].met is None


OVER = "records/s over tuned MirrorMaker 2"
PAYMENTS = DataSet(200, "none", 4, 1000, "json")


def test_payments_are_json_of_which_some_are_kept() -> None:
    values = [payment_of(number, 200) for number in range(1000)]
    orders = [json.loads(value) for value in values]
    assert {len(value) + KEY_BYTES for value in values} == {200}
    assert [one["id"] for one in orders] == list(range(1000))
    kept = [one for one in orders if one["amount"] >= payments.LEAST_AMOUNT]
    assert len(kept) == PAYMENTS.kept == 800
    assert not any(payments.is_masked(value) for value in values)
    assert payments.is_masked(values[0].replace(b"4000-000000000000", payments.MASK.encode()))
    assert payments.clock_of(values[7]) == (7, orders[7]["at"])


def test_rates_of_a_transform_count_what_it_left_out() -> None:
    counted = {"visible": 800, "distinct": 800, "kept": 800, "before_first": 80}
    one = run("k2ktui-transform", data=PAYMENTS.name, **counted)
    assert one.exact and one.rate == 900
    peers = [
        run("mm2-eos-transform", data=PAYMENTS.name, **counted, all_records_s=7.0),
        run("mm2-eos-tuned-transform", data=PAYMENTS.name, **counted),
    ]
    delays = [DelayResult("k2ktui-transform", 5000, 30.0, 4, 10, 10, 1.0, 2.0, 601.0, 4.0, 0.1)]
    memory = [MemoryResult("k2ktui-transform", ((10, 100), (40, 120)))]
    results = Results(copies=[one, *peers], delays=delays, memory=memory)
    verdicts = {verdict.text: verdict for verdict in targets.verdicts(results)}
    first = verdicts["filter and mask: records/s over exactly-once with the same"]
    assert (first.found, first.met) == ("2.00 x", True)
    second = verdicts["filter and mask: records/s over exactly-once tuned with the same"]
    assert (second.found, second.met) == ("1.00 x", True)
    assert verdicts["filter and mask: delay, p99"].met is False
    assert verdicts["filter and mask: peak memory for four times the data"].met is False
    assert verdicts["peak memory for four times the data"].met is None
    assert "200 B, JSON, filtered and masked, batches of 64 KiB, uncompressed" in markdown(results)


def test_a_run_that_broke_its_promise_does_not_count() -> None:
    broken = run("k2ktui", visible=1001)
    results = Results(copies=[broken, run("mm2-eos", all_records_s=20.0)])
    assert all(one.met is None for one in targets.verdicts(results) if "x" in one.needed)
    assert "**1 duplicates**" in markdown(results)
    assert targets.usable(run("mm2-tuned", visible=1001))


def test_results_survive_writing_and_reading() -> None:
    results = Results(
        machine={"CPU": "a"},
        copies=[ONE],
        delays=[DelayResult("k2ktui", 5000, 30.0, 4, 10, 10, 1.0, 2.0, 3.0, 4.0, 0.1)],
        memory=[MemoryResult("k2ktui", ((10, 100), (40, 105)))],
        configs={"k2ktui": "name: x"},
    )
    again = Results.from_plain(json.loads(json.dumps(results.plain())))
    assert again == results
    assert "| CPU | a |" in markdown(again)


def test_lists_the_runs() -> None:
    listed = subprocess.run(
        [sys.executable, "-m", "bench", "--list"],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    assert "copy/mm2-eos-tuned/1000-lz4-4-16k" in listed.stdout.splitlines()


def test_orders_are_avro_with_the_id_of_their_schema() -> None:
    fastavro = pytest.importorskip("fastavro")
    schema = fastavro.parse_schema(json.loads(orders.SCHEMA))
    for size in (60, 100, 1000):
        value = order_of(77, size, 8)
        assert len(value) + KEY_BYTES == size
        assert value.startswith(orders.prefix(8))
        data = io.BytesIO(value[orders.ID_BYTES :])
        assert fastavro.schemaless_reader(data, schema, None)["number"] == (77).to_bytes(8, "big")
        assert not data.read()


def test_only_k2ktui_maps_schema_ids() -> None:
    scope = Scope((DataSet(100, "lz4", 4, 1, "schemas"),))
    names = [task.name for task in tasks(scope, ["*schemas*"])]
    assert names == ["copy/k2ktui/schemas-100-lz4-4-64k"]


@pytest.mark.slow
def test_orders_with_another_id_do_not_count(target: KafkaNode) -> None:
    data = DataSet(100, "none", 2, 1000, "schemas")
    load(target.bootstrap, data, processes=2, schema_id=8)
    ends = clusters.end_offsets(target.bootstrap, data.topic, 2)
    distinct = [
        verify.count(
            target.bootstrap, data.topic, ends, values="schemas", schema_id=number
        ).distinct
        for number in (8, 9)
    ]
    assert distinct == [1000, 0]


def test_runs_with_schema_ids_are_reported() -> None:
    results = Results(copies=[run("k2ktui", data="schemas-100-none-4-64k")])
    assert "100 B, Avro, schema ids mapped, batches of 64 KiB, uncompressed" in markdown(results)
