"""``from k2ktui import Pipeline``, as a program uses it; the page's snippets run here, too."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from k2ktui import Basis, ExitCode, K2kError, Pipeline, TranslatedOffset
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import START_S, Out, create_topic, eventually, produce
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied, committed

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
PRIOR = 7


@pytest.fixture
def topic(source: KafkaNode) -> str:
    name = create_topic(source)
    produce(source, name, [Out(b"%d" % n, b"k") for n in range(800)])
    return name


@pytest.fixture
def copied(source: KafkaNode, target: KafkaNode, topic: str, tmp_path: Path) -> Copied:
    """A pipeline of one topic, copied to its end; each offset lands 7 later."""
    sink = {"sink": {"topic": "source", "partition": "source"}}
    settings = {"replication": [{"source": {"topic": [topic]}}, sink]}
    copied = Copied(tmp_path, source, target, settings, prior=PRIOR)
    copied.copy(topic)
    return copied


@pytest.fixture
def group(copied: Copied, topic: str, source: KafkaNode) -> str:
    name = copied.group("billing")
    commit_offsets(source, name, {(topic, 0): 712})
    return name


@pytest.fixture(autouse=True)
def _nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    yield
    assert capfd.readouterr() == ("", "")


def refused(error: pytest.ExceptionInfo[K2kError]) -> str:
    assert error.value.exit_code is ExitCode.REFUSED
    return str(error.value)


def without_times(value: Any) -> Any:
    """Return JSON without moments and ages, which two looks do not share."""
    if isinstance(value, list):
        return [without_times(item) for item in value]
    if not isinstance(value, dict):
        return value
    times = {"taken_at", "commits_at", "lag_s"}
    return {key: without_times(item) for key, item in value.items() if key not in times}


def test_what_is_read_is_what_the_commands_print(copied: Copied, topic: str, group: str) -> None:
    with Pipeline.open(copied.file) as pipeline:
        status, groups = pipeline.status(), pipeline.groups()
        translated = pipeline.translate({topic: {0: 712}, "other": {3: 1}})
        several = [{topic: {0: 5}}, {}, {topic: {0: 712}, "other": {3: 1}}, {topic: {0: 5}}]
        one, none, two, again = pipeline.translate_each(several)
        assert two == translated and one == again == pipeline.translate({topic: {0: 5}})
        assert none == ()
        plan = pipeline.plan()
    assert (pipeline.name, status.pipeline, groups.pipeline) == (copied.name,) * 3
    assert (status.lag_records, status.source_down, groups.source_down) == (0, "", "")
    (partition,) = status.partitions
    assert (partition.topic, partition.position, partition.target_end) == (topic, 800, 807)
    (row,) = groups.rows
    assert (row.group, row.source_offset, row.translated_offset) == (group, 712, 719)
    assert groups.estimate.safe == 1
    assert translated == (
        TranslatedOffset(topic, 0, 712, topic, 0, 719, Basis.EXACT, 0, 0),
        TranslatedOffset(
            "other", 3, 1, "", None, None, Basis.UNMAPPED, None, None, "other-3 is not replicated"
        ),
    )
    assert [(planned.group, planned.proposed) for planned in plan.rows] == [(group, 719)]
    for command, value in (("status", status.as_json()), ("groups", groups.as_json())):
        printed = k2ktui_json(command, "-f", copied.file)
        assert without_times(printed) == without_times(json.loads(json.dumps(value)))


def test_a_plan_is_applied_journaled_and_undone(
    copied: Copied, topic: str, group: str, target: KafkaNode
) -> None:
    at = (topic, 0)
    with Pipeline.open(copied.file, write=True) as pipeline:
        plan = pipeline.plan(group)
        assert committed(target, group, [at]) == {at: None}
        applied = pipeline.apply(plan)
        assert applied.complete and applied.counts == {"applied": 1}
        assert committed(target, group, [at]) == {at: 719}
        assert pipeline.apply(pipeline.plan(group)).id == ""  # nothing is left to apply
        (entry,) = pipeline.journal()
        assert (entry.id, entry.operation, entry.plan) == (applied.id, "apply", plan.id)
        with pytest.raises(K2kError) as error:
            pipeline.apply(plan)
        assert "have changed" in refused(error)
        undone = pipeline.undo(applied.id)
        assert committed(target, group, [at]) == {at: None}
        assert [entry.undoes for entry in pipeline.journal()] == [applied.id, ""]
    listed = k2ktui_json("journal", "-f", copied.file)["journal"]
    assert [entry["id"] for entry in listed] == [undone.id, applied.id]


def test_rows_are_chosen(copied: Copied, topic: str, group: str) -> None:
    with Pipeline.open(copied.file) as pipeline:
        (row,) = pipeline.plan(choices={(group, topic, 0): "+5"}).rows
        assert (row.proposed, row.basis) == (724, Basis.CHOSEN)
        (row,) = pipeline.plan(choices={(group, topic, 0): 9}).rows
        assert row.proposed == 9
        for wrong in (-1, "soon"):
            with pytest.raises(K2kError, match="cannot be set") as error:
                pipeline.plan(choices={(group, topic, 0): wrong})
            assert error.value.exit_code is ExitCode.USAGE
        with pytest.raises(K2kError, match="no group matches nobody"):
            pipeline.plan("nobody")


def test_a_plan_that_a_command_has_written_is_loaded_and_applied(
    copied: Copied, topic: str, group: str, target: KafkaNode
) -> None:
    file, at = copied.directory / "plan.json", (topic, 0)
    k2ktui("plan", "-f", copied.file, "-o", file)
    with Pipeline.open(copied.file, write=True) as pipeline:
        plan = pipeline.load_plan(file)
        assert [row.proposed for row in plan.rows] == [719]
        assert pipeline.apply(plan).counts == {"applied": 1}
        assert committed(target, group, [at]) == {at: 719}
        with pytest.raises(K2kError) as error:
            pipeline.apply(pipeline.load_plan(file))
        assert "have changed" in refused(error)


def test_nothing_is_written_unless_it_is_allowed(copied: Copied, group: str) -> None:
    with Pipeline.open(copied.file) as pipeline:
        plan = pipeline.plan(group)
        with pytest.raises(K2kError) as error:
            pipeline.apply(plan)
        assert "without write=True" in refused(error)
        with pytest.raises(K2kError) as error:
            pipeline.undo("any")
        assert "without write=True" in refused(error)
    extra = copied.directory / "more.yaml"
    for settings, unlocked in (({"readOnly": True}, False), ({"environment": "production"}, True)):
        extra.write_text(yaml.safe_dump(settings))
        with pytest.raises(K2kError) as error:
            Pipeline.open(copied.file, extra, write=True)
        assert "is refused" in refused(error)
        if unlocked:
            assert "unlock=True" in refused(error)
            with Pipeline.open(copied.file, extra, write=True, unlock=True) as pipeline:
                assert pipeline.apply(pipeline.plan(group)).complete
        else:
            with pytest.raises(K2kError) as error:
                Pipeline.open(copied.file, extra, write=True, unlock=True)
            assert "readOnly" in refused(error)


def test_threads_and_coroutines_share_pipelines(copied: Copied, topic: str, group: str) -> None:
    async def ask(pipeline: Pipeline) -> int | None:
        (row,) = (await asyncio.to_thread(pipeline.groups)).rows
        return row.translated_offset

    with Pipeline.open(copied.file) as one, Pipeline.open(copied.file) as other:
        with ThreadPoolExecutor(6) as pool:
            asked = [
                pool.submit(pipeline.translate, {topic: {0: offset}})
                for offset in range(0, 12, 2)
                for pipeline in (one, other)
            ]
            answers = [future.result()[0].translated_offset for future in asked]
        assert answers == [offset + PRIOR for offset in range(0, 12, 2) for _ in (one, other)]

        async def both() -> tuple[int | None, int | None]:
            first, second = await asyncio.gather(ask(one), ask(other))
            return first, second

        assert asyncio.run(both()) == (719, 719)


def test_what_was_copied_meanwhile_is_translated(
    copied: Copied, topic: str, source: KafkaNode
) -> None:
    with Pipeline.open(copied.file) as pipeline:
        (row,) = pipeline.translate({topic: {0: 801}})
        assert row.basis is not Basis.EXACT
        produce(source, topic, [Out(b"later", b"k")] * 10)
        copied.copy_on(topic, 800)
        pipeline.refresh()
        (row,) = pipeline.translate({topic: {0: 801}})
        assert (row.translated_offset, row.basis) == (801 + PRIOR, Basis.EXACT)


def test_a_closed_pipeline_leaves_no_thread_and_no_connection(
    copied: Copied, topic: str, group: str
) -> None:
    def use() -> None:
        with Pipeline.open(copied.file, write=True) as pipeline:
            pipeline.status()
            pipeline.groups()
            pipeline.translate({topic: {0: 1}})
            pipeline.undo(pipeline.apply(pipeline.plan()).id)
            pipeline.journal()
        assert repr(pipeline).endswith("closed>")
        pipeline.close()
        with pytest.raises(K2kError, match="was closed"):
            pipeline.status()

    process = psutil.Process()
    use()  # what is loaded once may keep a thread
    gc.collect()
    threads, sockets = process.num_threads(), len(process.net_connections())
    gc.disable()
    try:
        use()
        eventually(
            lambda: process.num_threads() <= threads and len(process.net_connections()) <= sockets,
            lambda: f"{process.threads()} {process.net_connections()}, not {threads} {sockets}",
        )
    finally:
        gc.enable()


def test_a_cluster_that_is_down(
    copied: Copied, topic: str, group: str, source: KafkaNode, target: KafkaNode
) -> None:
    with Pipeline.open(copied.file) as pipeline:
        (before,) = pipeline.translate({topic: {0: 712}})
        source.kill()
        try:
            status = pipeline.status()
            assert "source" in status.source_down
            assert [partition.position for partition in status.partitions] == [800]
            assert (status.lag_records, status.lag_s) == (None, None)
            assert pipeline.translate({topic: {0: 712}}) == (before,)
            with pytest.raises(K2kError, match="no snapshot of its consumer groups") as error:
                pipeline.groups()
            assert error.value.exit_code is ExitCode.CONNECTION
        finally:
            source.restart(START_S)

        def rows() -> object:
            with contextlib.suppress(K2kError):
                return pipeline.groups().rows
            return ()

        eventually(rows, "the source is back")


def test_a_pipeline_that_never_ran(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> None:
    copied = Copied(tmp_path, source, target)
    file = copied.file
    file.write_text(file.read_text().replace(copied.commits, "__nothing_there"))
    with Pipeline.open(file) as pipeline:
        for ask in (pipeline.status, pipeline.groups, pipeline.plan, pipeline.refresh):
            with pytest.raises(K2kError, match="no run of pipeline") as error:
                ask()
            assert error.value.exit_code is ExitCode.FINDINGS


def test_arguments_that_cannot_be_used(copied: Copied) -> None:
    with pytest.raises(K2kError, match="only with write=True"):
        Pipeline.open(copied.file, unlock=True)
    with pytest.raises(K2kError, match="standard input"):
        Pipeline.open("-")
    with pytest.raises(K2kError, match=r"nowhere\.yaml"):
        Pipeline.open(copied.directory / "nowhere.yaml")
    with Pipeline.open(copied.file) as pipeline:
        assert pipeline.translate({}) == pipeline.translate({"t": {}}) == ()
        assert pipeline.translate_each([]) == [] and pipeline.translate_each([{}, {}]) == [(), ()]
        wrong: list[dict[str, dict[int, int]]] = [
            {"t": {0: -1}},
            {"t:u": {0: 1}},
            {"t": {1 << 31: 1}},
            {"t": {True: 1}},
        ]
        for offsets in wrong:
            with pytest.raises(K2kError) as error:
                pipeline.translate(offsets)
            assert error.value.exit_code is ExitCode.USAGE
        with pytest.raises(K2kError, match="expected never or follow"):
            pipeline.plan(rewind="always")  # type: ignore[arg-type]
        shapes: list[Any] = [[], {"t": [7]}, {"t": 7}]
        for shape in shapes:
            with pytest.raises(K2kError, match="offsets: expected a mapping"):
                pipeline.translate(shape)
        with pytest.raises(K2kError, match="valid_s: expected 0 seconds or more"):
            pipeline.plan(valid_s=-1)


EXPECTED = {
    'lag_records, "records': "0 records are not copied yet\n{group} {topic} 0 719 exact\n",
    "translate(": "{topic} 0 719\n",
    "skip_moved": "{group} {topic} 0 None → 719 \n",
    "load_plan(": "1 offsets, planned by ",
    "except K2kError": "applying a plan is refused: the pipeline was opened without write=True",
}


def test_each_snippet_of_the_page(
    copied: Copied, topic: str, group: str, target: KafkaNode
) -> None:
    """Each runs as a program of its own, and what it has moved is put back for the next."""
    pipeline, at = copied.directory / "pipeline.yaml", (topic, 0)
    copied.file.rename(pipeline)
    marks = []
    for snippet in SNIPPETS:
        if "load_plan" in snippet:
            k2ktui("plan", "-f", pipeline, "-o", pipeline.parent / "plan.json")
        program = snippet.replace('orders"', f'{topic}"').replace("billing", group)
        done = subprocess.run(
            [sys.executable, "-"],
            input=program,
            cwd=pipeline.parent,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert (done.returncode, done.stderr) == (0, ""), f"{snippet}{done.stderr}"
        (mark,) = (mark for mark in EXPECTED if mark in snippet)
        marks.append(mark)
        assert done.stdout.startswith(EXPECTED[mark].format(group=group, topic=topic)), snippet
        writes = "write=True" in snippet
        assert committed(target, group, [at]) == {at: 719 if writes else None}, snippet
        if writes:
            assert done.stdout.endswith("{'applied': 1}\n")
            entry = k2ktui_json("journal", "-f", pipeline)["journal"][0]["id"]
            k2ktui("undo", "-f", pipeline, entry, "--yes")
    assert sorted(marks) == sorted(EXPECTED), "every kind of snippet is on the page"
