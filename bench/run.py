"""Carry out the tasks one after the other, and keep what they found after each of them."""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import psutil
from confluent_kafka import KafkaException

from bench import orders, pages, report
from bench.clusters import Clusters, delete_topics
from bench.copying import Patience, copy, warm_up
from bench.delay import delay
from bench.load import load
from bench.machine import commit, describe, is_in_memory, now
from bench.model import Contender, CopyResult, DataSet, DelayResult, MemoryResult, Results
from bench.plan import MAIN, REFERENCE, Scope, Task, contenders
from bench.sections import sections
from k2ktui.runtime.paths import write_atomically

_SETTLE_SECONDS = 30.0
_IDLE_CORES = 0.15
_WARMERS = (REFERENCE, MAIN)

_Result = TypeVar("_Result", CopyResult, DelayResult, MemoryResult)


def say(text: str) -> None:
    """Progress, on standard error."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class Limits:
    """When to leave the rest for another call.

    Attributes:
        rows: after so many runs; None for any number.
        until: from this moment on (monotonic).
    """

    rows: int | None = None
    until: float = float("inf")

    def reached(self, rows: int) -> bool:
        """Whether no other run begins after so many."""
        return rows == self.rows or time.monotonic() >= self.until


NO_LIMITS = Limits()


class Bench:
    """One benchmark on two running clusters.

    Args:
        directory: for configurations and logs of the replicators.
        out: where RESULTS.md and results.json go.
        results: what is known already; tasks found in it are skipped, unless the program has
            changed since.
    """

    def __init__(
        self, clusters: Clusters, scope: Scope, directory: Path, out: Path, results: Results
    ) -> None:
        self._clusters = clusters
        self._scope = scope
        self._directory = directory
        self._out = out
        self._results = results
        self._numbers = itertools.count(1)
        self._loaded: DataSet | None = None
        self._commit = commit()
        results.machine = describe()
        place = "memory" if is_in_memory(directory) else "files"
        results.settings = {"heap": scope.heap, "repeat": scope.repeat, "data": place}

    def run(self, tasks: Sequence[Task], patience: Patience, limits: Limits = NO_LIMITS) -> None:
        """Carry out ``tasks``; a run that fails is noted as such and the others continue.

        After a limit, no other run begins: the rest is for the next call.
        """
        left = [task for task in tasks if not done(self._results, task, self._commit)]
        carry_out: dict[str, Callable[[Task, Patience], None]] = {
            "copy": self._copy,
            "delay": self._delay,
            "memory": self._memory,
        }
        if left:
            self._warm_up(left[0].data or self._scope.data_sets[0])
        for number, task in enumerate(left):
            if limits.reached(number):
                break
            say(f"[{number + 1}/{len(left)}] {task.name}")
            try:
                carry_out[task.suite](task, patience)
            except KafkaException as failure:
                # A broker that is gone; the next run starts it again, and --resume repeats this.
                say(f"    FAILED: {failure}")
            keep(self._results, self._out)

    def tune(self, candidates: Sequence[Contender], patience: Patience) -> None:
        """Copy the first data set once with each candidate, and write TUNING.md."""
        data = self._scope.data_sets[0]
        runs: list[CopyResult] = []
        self._warm_up(data)
        for number, candidate in enumerate(candidates, 1):
            say(f"[{number}/{len(candidates)}] {candidate.key}")
            self._load(data)
            runs.append(self._copied(candidate, data, patience))
            text = report.tuning(self._results.machine, data, runs)
            write_atomically(self._out / "TUNING.md", text.encode())

    def _warm_up(self, data: DataSet) -> None:
        """Let the brokers compile their hot paths, and the page cache hold the program."""
        if data.values in ("json", "schemas"):
            data = DataSet(data.size, data.codec, data.partitions, data.records)
        self._load(data)
        for contender in contenders():
            if contender.key in _WARMERS:
                say(f"warm-up {contender.key}")
                directory = self._directory / self._next_name()
                warm_up(self._clusters, contender, data, directory)
                self._clean((data.topic,))

    def _copy(self, task: Task, patience: Patience) -> None:
        data = task.data
        assert data is not None
        with (
            orders.running(self._directory)
            if data.values == "schemas"
            else nullcontext() as registries
        ):
            self._load(data, registries)
            result = self._copied(task.contender, data, patience, registries)
        result = self._marked(replace(result, repeat=task.repeat), task)
        copies = self._results.copies
        copies[:] = [one for one in copies if _run_of(one) != _run_of(result)] + [result]

    def _copied(
        self,
        contender: Contender,
        data: DataSet,
        patience: Patience,
        registries: orders.Registries | None = None,
    ) -> CopyResult:
        name = self._next_name()
        self._settle()
        result, config = copy(
            self._clusters, contender, data, name, self._directory / name, patience, registries
        )
        self._note(contender.key, config)
        self._clean((data.topic,))
        say(f"    {report.one_line(result)}")
        return _shortened(result)

    def _delay(self, task: Task, patience: Patience) -> None:
        name = self._next_name()
        self._settle()
        steady = self._scope.steady
        result, config = delay(self._clusters, task.contender, steady, name, self._directory / name)
        self._note(task.contender.key, config)
        self._clean((self._loaded.topic,) if self._loaded else ())
        say(f"    {report.one_line_delay(result)}")
        delays = self._results.delays
        result = self._marked(_shortened(result), task)
        delays[:] = [one for one in delays if one.contender != result.contender] + [result]

    def _memory(self, task: Task, patience: Patience) -> None:
        peaks: list[tuple[int, int]] = []
        error = ""
        for data in self._scope.memory_data(task.contender):
            self._load(data)
            copied = self._copied(task.contender, data, patience)
            error = error or copied.error
            peaks.append((data.records, copied.rss_peak))
        result = self._marked(MemoryResult(task.contender.key, tuple(peaks), error), task)
        memory = self._results.memory
        memory[:] = [one for one in memory if one.contender != result.contender] + [result]

    def _marked(self, result: _Result, task: Task) -> _Result:
        """Say of what it is a result."""
        return replace(result, mode=task.contender.mode, commit=self._commit, date=now())

    def _load(self, data: DataSet, registries: orders.Registries | None = None) -> None:
        if self._loaded == data:
            return
        self._loaded = None
        self._clean(())
        say(f"loading {data.records:,} records: {data}")
        load(
            self._clusters.source.bootstrap,
            data,
            processes=self._scope.loaders,
            schema_id=registries.register(data.topic) if registries else 0,
        )
        self._loaded = data

    def _clean(self, kept: tuple[str, ...]) -> None:
        delete_topics(self._clusters.target.bootstrap)
        delete_topics(self._clusters.source.bootstrap, but=kept)

    def _settle(self) -> None:
        """Wait until nothing of the run before is still being written or deleted."""
        for node in self._clusters.both:
            if not node.running:
                say(f"the {node.name} broker had ended, and is started again:\n{node.tail()}")
                node.start()
        os.sync()
        nodes = [psutil.Process(node.pid) for node in self._clusters.both]
        deadline = time.monotonic() + _SETTLE_SECONDS
        while time.monotonic() < deadline:
            before = sum(sum(node.cpu_times()[:2]) for node in nodes)
            time.sleep(1.0)
            if sum(sum(node.cpu_times()[:2]) for node in nodes) - before < _IDLE_CORES:
                return

    def _next_name(self) -> str:
        return f"r{next(self._numbers):03d}"

    def _note(self, key: str, config: str) -> None:
        for address, word in zip(
            (node.bootstrap for node in self._clusters.both), ("SOURCE", "TARGET"), strict=True
        ):
            config = config.replace(address, f"{word}:9092")
        self._results.configs.setdefault(key, config)


def done(results: Results, task: Task, commit: str) -> bool:
    """Whether ``results`` hold a run of ``task`` with this commit that did not fail."""
    key, data = task.contender.key, task.data
    if data is None:
        rows: Sequence[DelayResult | MemoryResult] = (
            results.delays if task.suite == "delay" else results.memory
        )
        return any((one.contender, one.commit, one.error) == (key, commit, "") for one in rows)
    wanted = (key, data.name, task.repeat)
    copies = [one for one in results.copies if one.commit == commit and not one.error]
    return any(_run_of(one) == wanted for one in copies)


def keep(results: Results, out: Path) -> None:
    """Write results.json and RESULTS.md, and the tables of the documents that are made of them."""
    text = json.dumps(results.plain(), indent=1) + "\n"
    write_atomically(out / "results.json", text.encode())
    text = report.markdown(results) + sections(out / "RESULTS.md")
    write_atomically(out / "RESULTS.md", text.encode())
    if out == pages.BENCH:
        pages.write(results)


def _run_of(one: CopyResult) -> tuple[str, str, int]:
    return one.contender, one.data, one.repeat


def _shortened(result: _Result) -> _Result:
    """Keep an error's first line; what follows is a log with paths of this machine."""
    return replace(result, error=result.error.partition("\n")[0])
