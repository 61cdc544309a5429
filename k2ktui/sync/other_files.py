"""Whether the runs of a pipeline have one file: the same name, and the same rules for what to copy.

Two names with one ``coordination.commit.group`` are two pipelines that take the same positions for
their own: of each, only a part would be copied. Two files of one name are a roll-out, or a host
that was left out (docs/runners.md#one-file).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable

from k2ktui.config.copying import copy_digest
from k2ktui.config.model import PipelineConfig
from k2ktui.engine.moves.journal import RunKind, Runner, RunnerState
from k2ktui.engine.records.run_record import Run
from k2ktui.errors import K2kError
from k2ktui.kafka.clients import Cluster, target_cluster
from k2ktui.replication.fencing_errors import other_name
from k2ktui.replication.ownership.pipeline import read_commits
from k2ktui.replication.preflight.checks import Check
from k2ktui.sync.liveness import has_ended
from k2ktui.sync.store import StateStore
from k2ktui.text import list_names, safe_text

NAME = "pipeline file"
_READ_S = 20.0
_NAMED = 5


def read_last_run(config: PipelineConfig, target: Cluster) -> Run:
    """Return the newest run record of a pipeline; of term 0 if it has never run.

    Raises:
        ConnectionFailed, TimedOut, Refused: the commit topic could not be read.
    """
    return read_commits(config, target, _READ_S).run


def refuse_other_name(config: PipelineConfig, target: Cluster, last: Run) -> str:
    """Refuse to copy for a pipeline whose positions belong to one of another name that runs.

    Args:
        config: the pipeline.
        target: its target cluster.
        last: its newest run record.

    Returns:
        The note that the pipeline was renamed; "" if it was not.

    Raises:
        Refused: a run of another name lives.
        ConnectionFailed, TimedOut: the target did not answer.
    """
    if last.name in ("", config.name):
        return ""
    others = _read_live(config, target, lambda runner: _name(runner, last) != config.name)
    if others:
        group = config.coordination.commit.group
        raise other_name(config.name, _name(others[0], last), group, _places(others))
    return (
        f"pipeline {safe_text(last.name)} is now called {safe_text(config.name)}: it continues "
        "with the positions, mappings and journal of coordination.commit.group "
        f"{safe_text(config.coordination.commit.group)}"
    )


def check_file(config: PipelineConfig) -> Check:
    """Compare the file with those by which other runs copy; changes nothing."""
    target, digest = target_cluster(config), copy_digest(config)

    def differs(runner: Runner) -> bool:
        return _name(runner, last) != config.name or runner.digest not in ("", digest)

    try:
        last = read_last_run(config, target)
        live = _read_live(config, target, differs)
    except K2kError as error:
        return Check.unknown(NAME, error.message, error.hint)
    others = [runner for runner in live if _name(runner, last) != config.name]
    if not others:
        return _compare(config, digest, last, live)
    group = config.coordination.commit.group
    refusal = other_name(config.name, _name(others[0], last), group, _places(others))
    if config.coordination.mode == "exclusive":
        hint = f"A start fences it, and it ends. {refusal.hint}"
        return Check.warns(NAME, refusal.message, hint)
    return Check.fails(NAME, refusal.message, refusal.hint, fatal=True)


def _compare(
    config: PipelineConfig, digest: str, last: Run, differing: Collection[Runner]
) -> Check:
    """Compare digests; ``differing`` are the live runs of the same name with another one."""
    renamed = ""
    if last.name not in ("", config.name):
        renamed = f"; the pipeline was called {safe_text(last.name)} in its last run"
    if not last.term:
        return Check.passes(NAME, f"no run has copied yet (digest {digest})")
    if not last.digest:
        detail = f"an earlier release has copied, and its file is not known{renamed}"
        return Check.passes(NAME, f"{detail} (digest {digest})")
    own, newest = last.editions.find(digest), last.editions.newest
    where = _places(differing)
    if own is not None and own == newest:
        if differing:
            return Check.warns(
                NAME,
                f"runs with an older file live ({where}), and wait while one with this one does "
                f"(digest {digest})",
                "Give them this file, and restart them.",
            )
        return Check.passes(NAME, f"the newest one that runs have copied by{renamed} ({digest})")
    if own is None:
        changed = f"another one than that of the last run (digest {digest}, {newest.digest} before)"
        if not differing:
            return Check.passes(NAME, f"{changed}{renamed}; a start copies by it")
        if config.coordination.mode != "shared":
            return Check.passes(NAME, f"{changed}; other runs have another one ({where})")
        return Check.warns(
            NAME,
            f"{changed}: a start takes over from the runs that have another one ({where}), and "
            "they wait until they have this one",
            "If that is a roll-out, give every host this file, and restart its run. Otherwise "
            "start with the file that the other hosts have.",
        )
    newer = [runner for runner in differing if _number(last, runner.digest) > own.number]
    older = f"an older one (edition {own.number} of {newest.number}, digest {digest})"
    does = f"a start waits for the runs with a newer one ({_places(newer)})"
    if not newer:
        does = "no run with a newer one lives, so a start copies by it, and says so"
    return Check.warns(
        NAME,
        f"{older}: {does}" if config.coordination.mode == "shared" else older,
        "Give this host the newer file; to go back to this one, use start --take-over.",
    )


def _number(last: Run, digest: str) -> int:
    """Return the number of an edition; one that no run record names yet is the newest."""
    edition = last.editions.find(digest)
    return edition.number if edition is not None else last.editions.newest.number + 1


def _name(runner: Runner, last: Run) -> str:
    """Return the name of a run's pipeline; those of an earlier release have that on record."""
    return runner.name or last.name


def _places(runners: Iterable[Runner]) -> str:
    return list_names([f"{runner.host} pid {runner.pid}" for runner in runners], _NAMED)


def _read_live(
    config: PipelineConfig, target: Cluster, differs: Callable[[Runner], bool]
) -> list[Runner]:
    """Return the runs that differ, copy or wait for that, and must be assumed to live.

    It waits for a few seconds only where the heartbeat of such a run looks old.
    """

    def matters(runner: Runner) -> bool:
        return _may_live(runner) and differs(runner)

    store = StateStore(config, target, _READ_S)
    try:
        runners = store.read_settled(lambda runner: not matters(runner)).runners
    finally:
        store.close()
    now_ms = int(time.time() * 1000)
    return [runner for runner in runners if matters(runner) and runner.alive(now_ms)]


def _may_live(runner: Runner) -> bool:
    is_over = runner.state is RunnerState.STOPPED or has_ended(runner)
    return runner.kind is RunKind.COPY and not is_over
