"""Drills in memory, in place of those on the target, for commands that begin, resume and abort.

Everything that a command decides of drills is real: who owns them, what is refused, what is asked,
in which order phases run. What phases and checks read of clusters is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

from k2ktui.drill.authorship import Owners
from k2ktui.drill.session import PhaseResult, Session, failed
from k2ktui.engine.drill.checks import CheckResult, DrillPhase
from k2ktui.engine.drill.format import chain_event
from k2ktui.engine.drill.model import Drill, DrillEvent, PhaseStatus
from k2ktui.engine.drill.steps import describe_phase_of
from k2ktui.engine.records.moved_topic import NO_MOVED_TOPICS, MovedTopics
from k2ktui.sync.store import PipelineState
from tests.console.test_acting_pictures import READ
from tests.support.commands.transcript import Is
from tests.support.console.views import SOURCE_ID, TARGET_ID
from tests.support.drill.made_drills import LIVE
from tests.unit.golden.cases.clusters import ClusterAnswers

# Phases that ask inside, once they have shown what they do.
_ASKS = (DrillPhase.APPLY, DrillPhase.OPEN_TARGET)
SOURCE = ClusterAnswers({"clicks": [(0, 900)], "invoices": [(0, 7)], "payments": [(0, 9)]})
TARGET = ClusterAnswers(SOURCE.topics, TARGET_ID)
_CLUSTERS = ("operations", "ownership", "session", "topics", "kept_fences")


@dataclass
class KeptDrills:
    """The drills of a pipeline, and what its clusters answer.

    Attributes:
        drills: by id; a command writes here.
        moved: the topics that drills have moved.
        is_owned: whether another process acts on a drill.
        doubt: why it is not proven who wrote a record.
        results: how a phase ends; it is done where there is none.
        checks: what checks have found.
    """

    drills: dict[str, Drill] = field(default_factory=dict)
    moved: MovedTopics = NO_MOVED_TOPICS
    is_owned: bool = False
    doubt: str = ""
    results: Mapping[DrillPhase, PhaseResult | Exception] = field(default_factory=dict)
    checks: Sequence[CheckResult] = ()

    def answers(self) -> dict[str, Any]:
        """Return what takes the place of readings and writings."""
        store = "k2ktui.drill.store.DrillStore"
        guard = SimpleNamespace(look=lambda: None)

        def state(of: object, *_: object, **__: object) -> PipelineState:
            pipeline = vars(of)["_config"].name
            own = {key: drill for key, drill in self.drills.items() if drill.pipeline == pipeline}
            return PipelineState(drills=own)

        return {
            "k2ktui.sync.store.StateStore.read": state,
            "k2ktui.sync.store.StateStore.await_stable": None,
            f"{store}.own": None,
            f"{store}.begin": lambda _, __, refuse: refuse(),
            f"{store}.write": lambda _, *given: self._write(*given),
            f"{store}.beat": lambda _, drill: drill,
            f"{store}.read_digests": lambda _, drill: [event.digest for event in drill.events],
            "k2ktui.drill.ownership.is_owned": self.is_owned,
            "k2ktui.drill.operations.is_owned": self.is_owned,
            "k2ktui.drill.ownership.read_owners": Owners((1,)),
            "k2ktui.drill.ownership.find_doubt": self.doubt,
            "k2ktui.drill.ownership.new_token": "space:1:aa",
            "k2ktui.drill.operations.new_token": "space:1:aa",
            "k2ktui.drill.operations._source_id": SOURCE_ID,
            "k2ktui.drill.operations.read_moved": self.moved,
            "k2ktui.drill.operations.read_fence": None,
            "k2ktui.drill.kept_fences.denied_topics": frozenset(),
            "k2ktui.drill.topics.read_moved": self.moved,
            "k2ktui.drill.topics.take_snapshot": READ,
            "k2ktui.drill.topics.read_routes": {name: (name,) for name in SOURCE.topics},
            "k2ktui.drill.runner.RUNS": Is({phase: self._runs(phase) for phase in DrillPhase}),
            "k2ktui.drill.runner.run_checks": self.checks,
            "k2ktui.drill.runner.ControlTopicsGuard": guard,
            "k2ktui.drill.operations.__version__": Is("1.0"),
            "k2ktui.drill.session.monotonic": 0.0,
            **{
                f"k2ktui.drill.{module}.{side}_cluster": lambda _, cluster=cluster: cluster
                for module in _CLUSTERS
                for side, cluster in (("source", SOURCE), ("target", TARGET))
                if (module, side) not in {("ownership", "source"), ("kept_fences", "target")}
            },
        }

    def _write(self, drill: Drill, events: Sequence[DrillEvent] = ()) -> Drill:
        for event in events:
            drill = chain_event(drill, replace(event, entry="20261121-120000-d1d1d1d1"))
        self.drills[drill.id] = drill
        return drill

    def _runs(self, phase: DrillPhase) -> Callable[[Session], PhaseResult]:
        def run(session: Session) -> PhaseResult:
            if phase in _ASKS:
                session.confirm(phase, describe_phase_of(session.drill, phase))
            result = self.results.get(phase, PhaseResult(LIVE.get(phase, "done")))
            if isinstance(result, Exception):
                raise result
            return result

        return run


def kept(*drills: Drill, **values: Any) -> dict[str, Any]:
    """Return the answers of a pipeline with these drills; values as for :class:`KeptDrills`."""
    return KeptDrills({drill.id: drill for drill in drills}, **values).answers()


def stops(live: str, *findings: str) -> PhaseResult:
    """Return the result of a phase that stops a drill."""
    result = failed(live, *findings)
    assert result.status is PhaseStatus.FAILED
    return result
