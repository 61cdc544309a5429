"""What the cases of the transcript share: answers of clusters, and clusters that do not answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from k2ktui.engine.drill.pair_state import PairPhase, PairState
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import ConnectionFailed, TimedOut
from tests.support.commands.transcript import Typed, typed

AT = SourcePartition("payments", 0)
REPLICATING = PairState(PairPhase.REPLICATING)
PAIR = {"k2ktui.sync.drill.pair.read_pair_state": REPLICATING}
NO_SOURCE = ConnectionFailed(
    "the source cluster (src:9092) does not answer: connection refused",
    unchanged="Nothing was read or changed.",
    hint="Check that it is up and that bootstrap.servers is right.",
)
NO_TARGET = TimedOut(
    "the target cluster (dst:9092) did not answer within 30 s",
    unchanged="Nothing was read or changed.",
    hint="Check that it is up.",
)

Cases = Callable[[Path], list[Typed]]


def protected(folder: Path, command: str, answers: Mapping[str, Any]) -> list[Typed]:
    """Return a command on a pipeline of production, and on one whose file allows no change.

    Args:
        folder: where the commands run.
        command: the words, without ``-f``.
        answers: as for :func:`typed`.
    """
    (folder / "production.yaml").write_text("environment: production\n")
    (folder / "readonly.yaml").write_text("readOnly: enabled\n")
    return [
        typed(f"{command} -f orders.yaml -f {file}", answers)
        for file in ("production.yaml", "readonly.yaml")
    ]
