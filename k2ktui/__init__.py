"""k2ktui: exactly-once replication and offset translation between pairs of Kafka clusters.

For programs, it has :class:`Pipeline`, what its methods return, and :class:`K2kError`
(docs/python.md). They are imported when they are first used: ``import k2ktui`` alone is light,
which every command and every Spark worker relies on.
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING

from k2ktui.version import __version__

if TYPE_CHECKING:
    from k2ktui.engine.drill.objectives import Objectives
    from k2ktui.engine.drill.pair_state import PairPhase, PairState
    from k2ktui.engine.mapping.translate import Basis, TranslatedOffset
    from k2ktui.engine.moves.apply import WriteOutcome, WriteResult
    from k2ktui.engine.moves.failover import GroupEstimate, GroupPositions, MoveOutcome, NamedMove
    from k2ktui.engine.moves.groups import GroupRow
    from k2ktui.engine.moves.journal import JournalHeader
    from k2ktui.engine.moves.plan import Action, Plan, PlanRow, Rewind
    from k2ktui.engine.moves.written import OffsetWrite
    from k2ktui.engine.status import PartitionState, PartitionStatus
    from k2ktui.errors import ExitCode, K2kError
    from k2ktui.pipeline import Pipeline
    from k2ktui.sync.moves.apply import Applied
    from k2ktui.watch.once import PipelineStatus

__all__ = [
    "Action",
    "Applied",
    "Basis",
    "ExitCode",
    "GroupEstimate",
    "GroupPositions",
    "GroupRow",
    "JournalHeader",
    "K2kError",
    "MoveOutcome",
    "NamedMove",
    "Objectives",
    "OffsetWrite",
    "PairPhase",
    "PairState",
    "PartitionState",
    "PartitionStatus",
    "Pipeline",
    "PipelineStatus",
    "Plan",
    "PlanRow",
    "Rewind",
    "TranslatedOffset",
    "WriteOutcome",
    "WriteResult",
    "__version__",
]

_MODULES = {
    "k2ktui.engine.drill.objectives": ("Objectives",),
    "k2ktui.engine.drill.pair_state": ("PairPhase", "PairState"),
    "k2ktui.engine.mapping.translate": ("Basis", "TranslatedOffset"),
    "k2ktui.engine.moves.apply": ("OffsetWrite", "WriteOutcome", "WriteResult"),
    "k2ktui.engine.moves.failover": (
        "GroupEstimate",
        "GroupPositions",
        "MoveOutcome",
        "NamedMove",
    ),
    "k2ktui.engine.moves.groups": ("GroupRow",),
    "k2ktui.engine.moves.journal": ("JournalHeader",),
    "k2ktui.engine.moves.plan": ("Action", "Plan", "PlanRow", "Rewind"),
    "k2ktui.engine.status": ("PartitionState", "PartitionStatus"),
    "k2ktui.errors": ("ExitCode", "K2kError"),
    "k2ktui.pipeline": ("Pipeline",),
    "k2ktui.sync.moves.apply": ("Applied",),
    "k2ktui.watch.once": ("PipelineStatus",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

# Without a handler, Python prints warnings on stderr: of workers, and where k2ktui is a library.
logging.getLogger(__name__).addHandler(logging.NullHandler())

if not TYPE_CHECKING:  # it would make every name a known one

    def __getattr__(name: str) -> object:
        """Import a public name when it is first used."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
