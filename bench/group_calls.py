"""What plan, apply and sync take of the time after the program is loaded, for ``bench.groups``.

``python -m bench.group_calls FILE REPEAT`` prints a JSON object: of each call, CPU and wall seconds
of this process. It uses only functions that earlier versions have, too: ``bench.groups --against``
runs it with the code of another checkout.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

from k2ktui.engine.access import access
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.wire.groups import ConsumerGroupClient
from k2ktui.mm2.flow_files import read_flow
from k2ktui.sync.flow import Flow
from k2ktui.sync.loop.poll import SyncLoop
from k2ktui.sync.moves.apply import Applied
from k2ktui.sync.moves.plans import plan_options
from k2ktui.sync.operations import apply_plan, create_plan

Figures = dict[str, list[tuple[float, float]]]


def _timed(figures_by_call: Figures, name: str, call: Callable[[], Any]) -> Any:
    cpu, began = time.process_time(), time.perf_counter()
    result = call()
    figures = time.process_time() - cpu, time.perf_counter() - began
    figures_by_call.setdefault(name, []).append(figures)
    return result


def measure(flow: Flow, files: list[str], repeat: int) -> Figures:
    """Plan and apply everything, then let ``sync`` do it and poll again; so many times."""
    figures_by_call: Figures = {}
    config = flow.config
    options = plan_options(config, valid_s=3600.0)
    for number in range(repeat + 1):
        kept = figures_by_call if number else {}  # the first round warms up
        plan = _timed(kept, "plan", lambda: create_plan(flow, options, files))
        done = _timed(kept, "apply", partial(apply_plan, config, plan, files, access()))
        if not done.complete:
            raise RuntimeError(f"not applied: {done.counts}")
        _delete(flow, done)
        loop = SyncLoop(flow)
        try:
            first = _timed(kept, "first poll of sync", loop.turn)
            if first.applied != len(done.rows):
                raise RuntimeError(f"{first.applied} of {len(done.rows)} rows were committed")
            _timed(kept, "idle poll of sync", loop.turn)
        finally:
            loop.close()
        _delete(flow, done)
    return figures_by_call


def _delete(flow: Flow, done: Applied) -> None:
    """Delete what was committed on the target."""
    where: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for row in done.rows:
        where[row.write.group].add((row.write.topic, row.write.partition))
    with ConsumerGroupClient(wire(flow.config.target, "admin"), "target") as client:
        client.open(30.0)
        client.delete_offsets(where)


def main() -> None:
    """Print the figures."""
    file, repeat = sys.argv[1], int(sys.argv[2])
    flow, _ = read_flow([file])
    print(json.dumps(measure(flow, [file], repeat)))


if __name__ == "__main__":
    main()
