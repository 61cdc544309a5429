"""Plans of one pipeline, made from a snapshot according to its configuration, and kept plans.

Plans made without an output file are kept in a local directory, in the ``plan -o`` format. They
hold names and offsets, no secrets.
"""

from __future__ import annotations

import getpass
import logging
import os
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from k2ktui.config.inputs import absolute_files
from k2ktui.config.model import PipelineConfig
from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.choice import RowKey, RowValue
from k2ktui.engine.moves.groups import Snapshot
from k2ktui.engine.moves.plan import Action, Plan, Rewind, dump_plan
from k2ktui.engine.moves.planning import PlanOptions, make_plan
from k2ktui.private_files import private_directory, user_path, write_private
from k2ktui.sync.moves.plan_files import digest_files
from k2ktui.text import safe_text

log = logging.getLogger(__name__)

_KEPT = 50


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
    choices: Mapping[RowKey, RowValue] = MappingProxyType({}),
    keeps_choices: bool = False,
) -> PlanOptions:
    """Return the planning options of a pipeline; arguments as in ``PlanOptions``."""
    return PlanOptions(
        made_by=whoami(),
        valid_s=valid_s,
        rewind=rewind,
        guard_prefix=config.groups.offset_guard_prefix,
        guarded=config.features.apply_mappings_guard,
        own_only=own_only,
        conflicts=config.error_handling.on_multiple_target_committed_offsets,
        group=group,
        topic=topic,
        choices=choices,
        keeps_choices=keeps_choices,
    )


def make_pipeline_plan(
    snapshot: Snapshot,
    options: PlanOptions,
    files: Sequence[str] = (),
    logged: set[str] | None = None,
) -> Plan:
    """Make a plan that carries its pipeline's files, so that applying it needs no other input.

    Args:
        snapshot: what it is made of.
        options: how to plan.
        files: the pipeline's files.
        logged: refusals that were logged for an earlier plan and are not logged again; changed here
            to those of this plan. None logs all of them.
    """
    paths = absolute_files(files)
    plan = make_plan(snapshot, options)
    if log.isEnabledFor(logging.DEBUG):
        _log_refusals(plan, set() if logged is None else logged)
    return replace(plan, files=paths, files_digest=digest_files(paths) if paths else "")


def _log_refusals(plan: Plan, logged: set[str]) -> None:
    """Log each offset that is not translated or not committed, and why."""
    refusals: set[str] = set()
    for row in plan.rows:
        if row.basis is not Basis.UNMAPPED and row.action is not Action.BLOCKED:
            continue
        what = "not translated" if row.basis is Basis.UNMAPPED else "not committed"
        where = f"group {safe_text(row.group)}, {safe_text(row.topic)}-{row.partition}"
        refusal = f"{where} {what}: {row.reason}"
        key = re.sub(r"\d+", "#", refusal)  # offsets move on between two plans
        refusals.add(key)
        if key not in logged:
            log.debug("%s (source %s)", refusal, safe_text(row.source))
    logged.clear()
    logged.update(refusals)


def kept_plans() -> Path:
    """Return the directory of kept plans; it may not exist."""
    return user_path("state") / "plans"


def keep_plan(plan: Plan) -> Path | None:
    """Keep a plan, and delete all but the newest 50; None if it cannot be written."""
    path = kept_plans() / f"{plan.id}.json"
    try:
        private_directory(path.parent.parent)
        private_directory(path.parent)
        write_private(path, dump_plan(plan).encode())
    except OSError:
        return None
    with suppress(OSError):
        plan_files = sorted(
            path.parent.glob("*.json"), key=lambda plan_file: plan_file.stat().st_mtime
        )
        for old in plan_files[:-_KEPT]:
            old.unlink()
    return path
