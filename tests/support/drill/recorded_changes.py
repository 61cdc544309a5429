"""States before and after changes, as drills record them, and what reads them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping

from k2ktui.engine.drill import changes as drill_changes
from k2ktui.engine.drill.changes import Entity
from k2ktui.engine.drill.model import Change, ChangeKind

CHANGE_READERS: tuple[tuple[ChangeKind, Callable[[Change], object]], ...] = (
    (ChangeKind.ACLS, drill_changes.read_denied_topics),
    (ChangeKind.QUOTAS, drill_changes.read_quota_rates),
    (ChangeKind.OFFSETS, drill_changes.read_plans),
    (ChangeKind.OFFSETS, drill_changes.read_digests),
    (ChangeKind.JOB, drill_changes.read_host),
    (ChangeKind.EPOCHS, drill_changes.read_fenced),
    (ChangeKind.TAIL, drill_changes.read_tail_choice),
    (ChangeKind.TAIL, drill_changes.read_tail_starts),
    (ChangeKind.POSITIONS, drill_changes.read_moved_positions),
    (ChangeKind.RELEASE, drill_changes.read_released),
    (ChangeKind.STARTED_JOB, drill_changes.read_host),
    (ChangeKind.RIGHTS, drill_changes.read_entries),
    (ChangeKind.MOVED_TOPICS, drill_changes.read_moved_topics),
    (ChangeKind.RELEASED_TOPICS, drill_changes.read_moves),
)


def dump_rates(rates: Iterable[tuple[Entity, float | None]]) -> str:
    """Return producer quotas as drills recorded them that could fence by quotas."""
    return json.dumps([[[list(part) for part in entity], rate] for entity, rate in rates])


RECORDED: Mapping[ChangeKind, tuple[str, str]] = {
    ChangeKind.ACLS: ("[]", '["orders", "clicks"]'),
    ChangeKind.QUOTAS: (
        '[[[["client-id", "a"], ["user", null]], 2048.0]]',
        '[[[["client-id", null], ["user", null]], 1.0], '
        '[[["client-id", "a"], ["user", null]], 1.0]]',
    ),
    ChangeKind.OFFSETS: ('{"digests": {"plan-1": "5e88"}}', '["plan-1", "plan-2"]'),
    ChangeKind.JOB: ('{"host": "h", "files": ["/a.yaml"], "telemetry": false, "cwd": "/"}', ""),
    ChangeKind.EPOCHS: ("", '{"term": 7, "fenced": {"g.driver": [4711, 3], "g.0": [4712, 0]}}'),
    ChangeKind.TAIL: ('[["orders", 0, 7]]', '"replay"'),
    ChangeKind.POSITIONS: (
        '[["orders", 0, 7], ["orders", 1, null]]',
        '[["orders", 0, 9], ["orders", 1, 4]]',
    ),
    ChangeKind.RELEASE: ('["20260101-000000-ab"]', ""),
    ChangeKind.STARTED_JOB: ('{"host": "h"}', ""),
    ChangeKind.RIGHTS: ("", '["20260101-000000-ab"]'),
    ChangeKind.MOVED_TOPICS: ("", '["orders", "clicks"]'),
    ChangeKind.RELEASED_TOPICS: ('[["orders", "orders", "20260101-000000-ab", 7, "ann@a"]]', ""),
}
