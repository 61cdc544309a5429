"""A drill on real clusters, recorded while it is watched, and seen again as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2ktui.console.calls import CallKind, Calls, list_calls
from k2ktui.engine.drill.checks import DrillKind
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.flow import Flow
from k2ktui.watch.model import View
from k2ktui.watch.poller import open_poller
from k2ktui.watch.recording import Recording, RecordingDirectory
from tests.support.clusters.kafka import eventually
from tests.support.drill.runs import Pair

pytestmark = pytest.mark.slow


def test_a_night_is_read_back_as_it_was_seen_and_its_end_calls_once(
    tmp_path: Path, source: KafkaNode, target: KafkaNode
) -> None:
    pair = Pair(tmp_path, source, target)
    kept = RecordingDirectory(tmp_path / "kept", pair.copied.name, 7 * 86_400)
    views: list[View] = []

    def add(view: View) -> None:
        kept.add(view)
        views.append(view)

    feed = open_poller(Flow(pair.copied.config), 2.0)
    feed.start(add)
    try:
        eventually(lambda: views and views[-1].whole, "a whole view")
        drill = pair.start(DrillKind.REHEARSE)
        eventually(lambda: any(seen.is_over for seen in views[-1].drills), "the end of the drill")
    finally:
        feed.close()
        kept.close()
    recordings = list(map(Recording, (tmp_path / "kept").iterdir()))
    read = [one.view(number) for one in recordings for number in range(len(one))]
    read.sort(key=lambda view: view.taken_at)
    assert read == views[: len(read)]
    assert any(seen.id == drill.id and seen.is_over for seen in read[-1].drills)
    calls = Calls()
    found = [
        call
        for view in views
        for call in calls.find_new(list_calls(view), view.taken_at, whole=view.whole)
    ]
    assert [drill.id in call.text for call in found if call.kind is CallKind.ENDED] == [True]
