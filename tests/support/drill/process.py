"""Drills in processes of their own, which a test kills at random moments."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from k2ktui.drill import runner
from k2ktui.drill.checks.context import CheckLimits
from k2ktui.drill.operations import list_drills, resume_drill, start_drill, verify_drill
from k2ktui.drill.ownership import Actor
from k2ktui.drill.report import summarize
from k2ktui.engine.drill.checks import DrillKind
from k2ktui.engine.drill.model import Drill, DrillOptions
from k2ktui.errors import K2kError
from k2ktui.kafka.properties.translation import load_checked
from k2ktui.sync.flow import Flow
from tests.support.drill.runs import MAY, Yes, settled

KILLS = 4
_END_S = 600.0


@dataclass(frozen=True)
class DrillCommand:
    """A drill of a pipeline's file, begun or resumed by each process that :meth:`run` starts."""

    file: Path
    kind: DrillKind
    options: DrillOptions

    @property
    def flow(self) -> Flow:
        """The pipeline."""
        return Flow(load_checked((str(self.file),)).config)

    def found(self) -> Drill | None:
        """Return the newest drill of this kind, if one was begun."""
        drills = list_drills(settled(self.flow))
        return next((drill for drill in drills if drill.kind is self.kind), None)

    def run(self, seconds: float = _END_S) -> bool:
        """Run it in a process that is killed after some seconds; return whether it ended first."""
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        process = context.Process(target=_run, args=(self, dict(os.environ)), daemon=True)
        process.start()
        process.join(seconds)
        ended = not process.is_alive()
        process.kill()
        process.join()
        return ended

    def run_undisturbed(self) -> tuple[Drill, float]:
        """Run it to its end; return it and the seconds that it took."""
        began = time.monotonic()
        assert self.run(), "it did not end"
        return self.result(), time.monotonic() - began

    def run_killed(self, seed: int, seconds: float) -> tuple[Drill, int]:
        """Kill it at random moments of so many seconds, and resume it; return it and the kills."""
        chance = random.Random(seed)
        killed = 0
        while killed < KILLS and not self.run(chance.uniform(0.0, seconds * 0.6)):
            killed += 1
        drill = self.found()
        if drill is None or not drill.is_over:
            assert self.run(), "it did not end"
        return self.result(), killed

    def result(self) -> Drill:
        """Return the drill, which has ended and whose report fits its journal."""
        drill_found = self.found()
        assert drill_found is not None and drill_found.is_over, drill_found
        drill, problems = verify_drill(settled(self.flow), drill_found.id)
        assert problems == []
        return drill


def _run(command: DrillCommand, environment: Mapping[str, str]) -> None:
    os.environ.update(environment)
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.suppress(K2kError),  # what the drill then is, is looked at afterwards
    ):
        patch.setattr(runner, "CheckLimits", partial(CheckLimits, sample_s=0.2))
        flow, files = command.flow, [str(command.file)]
        before = command.found()
        if before is None:
            start_drill(Actor(flow, files, MAY, Yes()), command.kind, command.options)
        elif not before.is_over:
            resume_drill(Actor(flow, files, MAY, Yes()), before.id)


def comparable(drill: Drill, names: Sequence[str], also: Callable[[], Any]) -> dict[str, Any]:
    """Return what a drill came to, without names of the test, times and who acted.

    Args:
        drill: the drill, which has ended.
        names: names of the test, which are replaced by their numbers.
        also: returns what else is to be compared, such as offsets and jobs.
    """
    drill = replace(drill, events=())
    text = {
        "verdict": summarize(drill)[0],
        "phases": [(record.phase, record.status) for record in drill.phases],
        "changes": sorted((change.phase, change.kind, change.status) for change in drill.changes),
        "groups": [asdict(replace(group, first_ms=None)) for group in drill.groups],
        "checks": {check.id: str(check.outcome) for check in drill.checks},
        "rpo": (drill.figures.rpo_records, drill.figures.rpo_at_least),
        "content": (drill.figures.content_compared, drill.figures.content_different),
        "tail": [asdict(replace(e, oldest_ms=None, newest_ms=None)) for e in drill.tail],
        "also": also(),
    }
    return {key: _without(str(value), names) for key, value in text.items()}


def _without(text: str, names: Sequence[str]) -> str:
    for number, name in sorted(enumerate(names), key=lambda name: -len(name[1])):
        text = text.replace(name, f"<{number}>")
    return text
