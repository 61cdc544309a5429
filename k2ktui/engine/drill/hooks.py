"""Hooks: commands of the pipeline's file that a drill runs before or after a phase; pure.

A drill's record says which hooks there are, and what became of each, but never what is run: that is
only in the file. A hook of the file is found in the record by its digest.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import FailFast

from k2ktui.engine.bounded import Flag, Millis, Number, Text
from k2ktui.engine.drill.checks import DrillPhase
from k2ktui.engine.drill.dns import DnsMove
from k2ktui.secret_values import hide_secrets
from k2ktui.text import safe_text

BEFORE, AFTER = "before", "after"
# The phases after which an abort is refused: what such a hook did is never undone.
_AFTER_RETURN = (DrillPhase.WATCH_CLIENTS, DrillPhase.REVERSE, DrillPhase.REPORT)


class HookRole(StrEnum):
    """Whose a command is: a hook of the file, or a part of ``drill.redirect`` that a phase runs."""

    HOOK = "hook"
    CUT_OFF = "cut-off"
    REDIRECT = "redirect"


class HookStatus(StrEnum):
    """Status of a hook; ``running`` and ``undoing``: it may have ended, only a person knows."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    UNDOING = "undoing"
    UNDONE = "undone"
    KEPT = "kept"


@dataclass(frozen=True, slots=True)
class Hook:
    """A hook as the pipeline's file has it.

    Attributes:
        phase: the phase that it belongs to.
        after: whether it runs after the phase, or before.
        purpose: what it is for, in one sentence.
        command: program and arguments.
        timeout_s: how long it may run, in seconds.
        abort: program and arguments that undo it; empty if nothing does.
        role: whose it is.
        socket: HAProxy's runtime socket; ``command`` and ``abort`` are then commands of its
            runtime API, one each. Empty for programs and DNS.
        dns: the records of DNS that a redirect moves; ``command`` is then the script of nsupdate
            that does the same by hand. None for all others.
    """

    phase: DrillPhase
    after: bool
    purpose: str
    command: tuple[str, ...]
    timeout_s: float
    abort: tuple[str, ...] = ()
    role: HookRole = HookRole.HOOK
    socket: str = ""
    dns: DnsMove | None = None

    @property
    def step(self) -> str:
        """What is typed to confirm it, such as ``before-open-target``."""
        return _step(self.phase, self.role, after=self.after)

    @property
    def shown_command(self) -> str:
        """Its command as a person would type it; safe to print."""
        return self._show(self.command)

    @property
    def shown_abort(self) -> str:
        """The command that undoes it, as a person would type it; safe to print."""
        return self._show(self.abort)

    def _show(self, command: tuple[str, ...]) -> str:
        if not command:
            return ""
        sends: tuple[tuple[str, ...], ...] = (command,)
        if self.dns is not None:
            sends = ("printf", r"%s\n", *command), ("nsupdate", "-v", "-k", self.dns.key_file)
        elif self.socket:
            sends = ("echo", "; ".join(command)), ("socat", "stdio", self.socket)
        return " | ".join(map(show_command, sends))

    @property
    def can_be_undone(self) -> bool:
        """Whether an abort is still possible when it runs."""
        return not (self.phase in _AFTER_RETURN or self._is_after_opening)

    @property
    def _is_after_opening(self) -> bool:
        return self.phase is DrillPhase.OPEN_TARGET and self.after

    @property
    def digest(self) -> str:
        """SHA-256 of everything that the file says of it, as hex text."""
        ours = self.role is not HookRole.HOOK  # its phase depends on the kind of drill
        content = [
            str(self.role) if ours else str(self.phase),
            self.after,
            self.purpose,
            list(self.command),
            self.timeout_s,
            list(self.abort),
            *([self.socket] if ours else []),
            *([self.dns.key_file] if self.dns is not None else []),
        ]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class HookRecord:
    """What a drill has recorded of a hook; all texts are only shown.

    Attributes:
        phase, after: its place.
        purpose, command, abort: what the file says of it.
        digest: that of the hook of the file.
        status: its status.
        attempts: how often its command was begun.
        order: its place among the hooks that were begun, from 1.
        changes: number of changes that the drill had recorded when it was begun last.
        began_ms, ended_ms: of its last attempt, in epoch milliseconds.
        result: how its last attempt ended.
        output: the end of what its last attempt printed.
        undo_result, undo_output: the same of the command that undoes it.
        role: whose it is.
        addresses: of a cut-off, where clients reached the source before it.
        ttl_s: of a redirect by DNS, how long caches may have the records as they stood before it,
            in seconds.
    """

    phase: DrillPhase
    after: Flag
    purpose: Text
    command: Text
    abort: Text
    digest: Text
    status: HookStatus = HookStatus.WAITING
    attempts: Number = 0
    order: Number = 0
    changes: Number = 0
    began_ms: Millis | None = None
    ended_ms: Millis | None = None
    result: Text = ""
    output: Text = ""
    undo_result: Text = ""
    undo_output: Text = ""
    role: HookRole = HookRole.HOOK
    addresses: Annotated[tuple[Text, ...], FailFast()] = ()
    ttl_s: Number = 0

    @property
    def step(self) -> str:
        """What is typed to confirm it."""
        return _step(self.phase, self.role, after=self.after)

    @property
    def name(self) -> str:
        """The hook in a sentence, such as ``hook before open-target``."""
        if self.role is not HookRole.HOOK:
            return str(self.role)
        return f"hook {AFTER if self.after else BEFORE} {self.phase}"

    @property
    def may_have_run(self) -> bool:
        """Whether its command was begun, and nothing has undone it."""
        return self.attempts > 0 and self.status not in (HookStatus.UNDONE, HookStatus.KEPT)


def hook_step(phase: DrillPhase, *, after: bool) -> str:
    """Return what is typed to confirm the hooks before or after a phase."""
    return f"{AFTER if after else BEFORE}-{phase}"


def _step(phase: DrillPhase, role: HookRole, *, after: bool) -> str:
    """Return what is typed: what is a part of its phase is confirmed with it."""
    return hook_step(phase, after=after) if role is HookRole.HOOK else str(phase)


def find_phase(step: str) -> DrillPhase | None:
    """Return the phase of something to confirm: a phase, or the hooks before or after one."""
    names = (step, step.removeprefix(f"{BEFORE}-"), step.removeprefix(f"{AFTER}-"))
    return next((DrillPhase(name) for name in names if name in set(DrillPhase)), None)


def show_command(command: Iterable[str]) -> str:
    """Return a command as text that is safe to print, without secrets of the configuration."""
    return safe_text(hide_secrets(shlex.join(command)))


def describe_hook(hook: Hook) -> str:
    """Return what a hook is for, what it runs, and what undoes it, in one line; safe to print."""
    undo = f" An abort runs: {hook.shown_abort}." if hook.abort else ""
    return (
        f"{new_record(hook).name}, {safe_text(hide_secrets(hook.purpose))}. "
        f"It runs: {hook.shown_command} (at most {hook.timeout_s:g} s).{undo}"
    )


def describe_record(record: HookRecord) -> str:
    """Return what a drill has recorded of a hook, in one line."""
    parts = (str(record.status), describe_results(record))
    return f"{record.name}, {record.purpose}: {', '.join(filter(None, parts))}"


def describe_run(record: HookRecord) -> list[str]:
    """Return what a drill has recorded of a hook, and what it and its abort run, in lines."""
    lines = [describe_record(record), f"  runs: {record.command}"]
    return [*lines, f"  abort: {record.abort}"] if record.abort else lines


def describe_results(record: HookRecord) -> str:
    """Return how a hook and its abort ended last; "" for a hook that has not ended."""
    undo = f"abort: {record.undo_result}" if record.undo_result else ""
    return "; ".join(filter(None, (record.result, undo)))


def describe_hook_undo(record: HookRecord) -> str:
    """Return what an abort does about a hook that may have run, in one line."""
    runs = f"runs {record.abort}" if record.abort else "runs nothing: undo it by hand"
    return f"{record.name}, {record.purpose}: {runs}"


def new_record(hook: Hook) -> HookRecord:
    """Return the record of a hook that has not run."""
    return HookRecord(
        hook.phase,
        hook.after,
        safe_text(hide_secrets(hook.purpose)),
        hook.shown_command,
        hook.shown_abort,
        hook.digest,
        role=hook.role,
    )


def digest_hooks(hooks: Iterable[Hook]) -> str:
    """Return the digest of all hooks of a file, in their order; "" without one."""
    digests = [hook.digest for hook in hooks]
    return hashlib.sha256("\n".join(digests).encode()).hexdigest() if digests else ""


def hook_json(hook: Hook) -> dict[str, object]:
    """Return a hook as the object of JSON outputs, without secrets of the configuration."""
    role = {"role": str(hook.role), "socket": hook.socket} if hook.role != HookRole.HOOK else {}
    role |= {} if hook.dns is None else {"key_file": hook.dns.key_file}
    return {
        "phase": str(hook.phase),
        "when": AFTER if hook.after else BEFORE,
        **role,
        "for": hide_secrets(hook.purpose),
        "command": [hide_secrets(part) for part in hook.command],
        "timeout_s": hook.timeout_s,
        "abort": [hide_secrets(part) for part in hook.abort],
        "sha256": hook.digest,
    }
