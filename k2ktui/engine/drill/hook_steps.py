"""Which hooks of a drill run next, and in which order an abort undoes what was done; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from k2ktui.engine.drill.hooks import (
    Hook,
    HookRecord,
    HookRole,
    HookStatus,
    describe_hook_undo,
    digest_hooks,
    new_record,
)
from k2ktui.engine.drill.model import Change, ChangeStatus, Drill, PhaseStatus
from k2ktui.engine.drill.redirects import kept_ttl
from k2ktui.engine.drill.steps import changes_to_restore


def find_hook(drill: Drill, digest: str) -> HookRecord | None:
    """Return the record of a hook by its digest; None without one."""
    return next((record for record in drill.hooks if record.digest == digest), None)


def put_hook(drill: Drill, record: HookRecord) -> Drill:
    """Return the drill with another record of a hook that it has."""
    hooks = (record if old.digest == record.digest else old for old in drill.hooks)
    return replace(drill, hooks=tuple(hooks))


def with_file_hooks(drill: Drill, hooks: Sequence[Hook]) -> Drill:
    """Return the drill with the hooks of a file: what it has recorded of each of them stays.

    Of hooks that the file does not have, those stay that may have run. How long caches may have
    the records of a redirect stays, too: what they got does not depend on the file.
    """
    listed = tuple(find_hook(drill, hook.digest) or new_record(hook) for hook in hooks)
    ttl_s = kept_ttl(drill)
    listed = tuple(
        replace(record, ttl_s=ttl_s) if record.role is HookRole.REDIRECT else record
        for record in listed
    )
    digests = {record.digest for record in listed}
    gone = (r for r in drill.hooks if r.digest not in digests and r.attempts)
    return replace(drill, hooks=(*listed, *gone), hooks_digest=digest_hooks(hooks))


def begin_hook(drill: Drill, record: HookRecord, at_ms: int) -> HookRecord:
    """Return the record of a hook whose command is about to be run."""
    return replace(
        record,
        status=HookStatus.RUNNING,
        attempts=record.attempts + 1,
        order=1 + max((other.order for other in drill.hooks), default=0),
        changes=len(drill.changes),
        began_ms=at_ms,
        ended_ms=None,
        result="",
        output="",
    )


def repeat_hooks(drill: Drill) -> Drill:
    """Return the drill with the hooks waiting again whose phases are repeated.

    Only those that have ended: of one whose end is not known, the operator is still asked.
    """
    repeated = {record.phase for record in drill.phases if record.status is PhaseStatus.WAITING}
    hooks = (
        replace(record, status=HookStatus.WAITING)
        if record.status is HookStatus.DONE and record.phase in repeated
        else record
        for record in drill.hooks
    )
    return replace(drill, hooks=tuple(hooks))


def hooks_to_undo(drill: Drill) -> list[HookRecord]:
    """Return the hooks that may have run, the last one first."""
    ran = (record for record in drill.hooks if record.may_have_run)
    return sorted(ran, key=lambda record: record.order, reverse=True)


def steps_back(drill: Drill) -> list[Change | HookRecord]:
    """Return what an abort undoes, changes and hooks, the last one first."""
    steps: list[Change | HookRecord] = []
    hooks, open_ = hooks_to_undo(drill), changes_to_restore(drill)
    for count in range(len(drill.changes), -1, -1):
        steps += [hook for hook in hooks if min(hook.changes, len(drill.changes)) == count]
        if count and drill.changes[count - 1] in open_:
            steps.append(drill.changes[count - 1])
    return steps


def describe_step_back(step: Change | HookRecord) -> str:
    """Return what an abort undoes, in one line."""
    return describe_hook_undo(step) if isinstance(step, HookRecord) else step.what


def keeps_effects(drill: Drill) -> bool:
    """Return whether an abort has left something as it was."""
    changes = any(change.status is ChangeStatus.KEPT for change in drill.changes)
    return changes or any(record.status is HookStatus.KEPT for record in drill.hooks)


def hooks_of(hooks: Iterable[Hook], phase: str, *, after: bool) -> list[Hook]:
    """Return the hooks before or after a phase, in the order of the file."""
    return [
        hook
        for hook in hooks
        if hook.phase == phase and hook.after is after and hook.role is HookRole.HOOK
    ]


def find_role(hooks: Iterable[Hook], role: HookRole) -> Hook | None:
    """Return the cut-off or the redirect of a file; None without one."""
    return next((hook for hook in hooks if hook.role is role), None)
