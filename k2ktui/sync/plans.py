"""Plans of one pipeline, made from a snapshot according to its configuration."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.groups import Snapshot
from k2ktui.engine.plan import Plan, Rewind
from k2ktui.engine.planning import PlanOptions, make_plan


def whoami() -> str:
    """Return the ``user@host`` of this process."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def plan_options(
    config: PipelineConfig,
    *,
    rewind: Rewind = Rewind.NEVER,
    valid_s: float = 900.0,
    own_only: bool = False,
    group: Callable[[str], bool] = lambda _: True,
    topic: Callable[[str], bool] = lambda _: True,
) -> PlanOptions:
    """Return the planning options of a pipeline; arguments as in ``PlanOptions``."""
    return PlanOptions(
        made_by=whoami(),
        valid_s=valid_s,
        rewind=rewind,
        guard_prefix=config.groups.offset_guard_prefix,
        guarded=config.features.apply_mappings_guard,
        own_only=own_only,
        conflicts_fail=config.error_handling.on_multiple_target_committed_offsets == "fail",
        group=group,
        topic=topic,
    )


def make_pipeline_plan(snapshot: Snapshot, options: PlanOptions, files: Sequence[str]) -> Plan:
    """Make a plan that carries its pipeline's files, so that applying it needs no other input."""
    paths = tuple(os.path.abspath(part) for each in files for part in each.split(",") if part)
    return replace(make_plan(snapshot, options), files=paths)
