"""Who a soak says has written to its copies: nobody but its pipeline, until somebody has."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.soak_faults import Scene
from k2ktui.engine.strict_json import MalformedRecord
from k2ktui.runtime.node import KafkaNode
from k2ktui.watch.codec import loads
from tests.support.clusters.kafka import (
    Out,
    create_topic,
    eventually,
    produce,
    produce_transaction,
    unique_name,
)
from tests.support.records.traffic import Traffic

# What is copied beside the traffic that is proven: its logs are compacted, its partitions grow, and
# some of it is copied more than once.
TOPIC, PARTITIONS = "soak-compacted", 2
_COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "10000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "1000",
}
CLEANER = {"log.cleaner.backoff.ms": "2000"}
_PLAIN, _IN_TRANSACTION = 4, 3
STRAYS = _PLAIN + _IN_TRANSACTION
_FRESH_S, _TICK_S = 10.0, 0.2


@dataclass
class Looks:
    """What views say of other writers.

    Attributes:
        views: how many there were.
        told: in how many of them it was fully known of all target partitions.
        reasons: in how many of them it was not, by the reason.
        alarms: in how many of them there were strange records.
        records: how many of these the last view has; None if it does not tell.
    """

    views: int = 0
    told: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    alarms: int = 0
    records: int | None = None

    def take(self, line: str) -> str:
        """Count a view of ``watch --json``; return what it says of strange records."""
        writers = loads(line).other_writers
        self.views += 1
        self.records = None if writers is None else writers.records
        if writers is None:
            return ""
        reasons = [*writers.untold, *writers.unread, *([writers.why] if writers.why else [])]
        for reason in reasons:
            self.reasons[reason] = self.reasons.get(reason, 0) + 1
        self.told += not reasons
        self.alarms += bool(writers.strange)
        return "; ".join(writers.describe()) if writers.strange else ""


class WritersWatch:
    """Looks at each view of a long-living ``k2ktui watch``, and at those of new processes.

    Args:
        file: of the pipeline.
        out: what the long-living one prints.

    Attributes:
        living: what the long-living one says.
        fresh: what new processes say.
        said: what either has said of strange records, with when.
    """

    def __init__(self, file: Path, out: Path) -> None:
        self._file, self._out = file, out
        self.living, self.fresh, self.said = Looks(), Looks(), list[str]()
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=target, daemon=True)
            for target in (self._follow, self._start_again)
        ]

    def __enter__(self) -> WritersWatch:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _follow(self) -> None:
        part = ""
        with self._out.open() as printed:
            while not self._over.wait(_TICK_S):
                while line := printed.readline():
                    part += line
                    if part.endswith("\n"):
                        self._take(self.living, part)
                        part = ""

    def _start_again(self) -> None:
        while not self._over.wait(_FRESH_S):
            self.look_anew()

    def look_anew(self) -> None:
        """Let a new process look once."""
        command = [sys.executable, "-m", "k2ktui", "watch", "-f", str(self._file)]
        done = subprocess.run(
            [*command, "--once", "--json"], capture_output=True, text=True, check=False
        )
        for line in done.stdout.splitlines():
            self._take(self.fresh, line)

    def _take(self, looks: Looks, line: str) -> None:
        with contextlib.suppress(MalformedRecord):  # of the log
            if text := looks.take(line):
                kind = "living" if looks is self.living else "fresh"
                self.said.append(f"{time.strftime('%H:%M:%S')} {kind}: {text}")


@contextlib.contextmanager
def compacted_traffic(source: KafkaNode, seed: int, pause: float) -> Iterator[dict[str, int]]:
    """Write to a compacted topic; yields its number of partitions, which may grow."""
    create_topic(source, TOPIC, partitions=PARTITIONS, config=_COMPACTED)
    topics = {TOPIC: PARTITIONS}
    with Traffic(source, topics, seed, pause=pause, keyed=True):
        yield topics


def write_strays(scene: Scene, watch: WritersWatch, within_s: float) -> float:
    """Write to copies as no pipeline does; return the seconds until the living watch has all.

    Each has a key of its own: none is compacted away.

    Args:
        scene: the pipeline and its target.
        watch: whose living one must see them.
        within_s: how long that may take, in seconds.

    Raises:
        AssertionError: they are not seen in time.
    """
    began = time.monotonic()
    strays = [Out(b"stray", b"stray %d" % n, partition=n >= _PLAIN) for n in range(STRAYS)]
    produce(scene.target, TOPIC, strays[:_PLAIN])
    stranger = unique_name("stranger")
    produce_transaction(scene.target, TOPIC, strays[_PLAIN:], transactional_id=stranger)
    what = f"{STRAYS} strange records are seen"
    eventually(lambda: watch.living.records == STRAYS, what, within_s)
    return time.monotonic() - began
