"""Whether a session may change anything on a pipeline's clusters: one rule for every command.

The console grays out what this rule refuses. Every writer calls :func:`require` as well, so an
action that a screen fails to disable still changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from k2ktui.errors import Refused

PRODUCTION = frozenset({"production", "prod"})


def is_production(environment: str) -> bool:
    """Return whether this ``environment`` of a pipeline's file is read-only by default."""
    return environment.strip().lower() in PRODUCTION


@dataclass(frozen=True, slots=True)
class Access:
    """What a session may do.

    Attributes:
        writable: whether it may change clusters and start or stop jobs.
        reason: why not; empty if it may.
        unlockable: whether an operator may unlock the session.
    """

    writable: bool
    reason: str = ""
    unlockable: bool = False


def access(
    *,
    flag: bool = False,
    configured: bool = False,
    environment: str = "",
    unlocked: bool = False,
    replay: bool = False,
) -> Access:
    """Decide what a session may do.

    Args:
        flag: whether ``--read-only`` was given.
        configured: ``readOnly`` of the pipeline's file.
        environment: ``environment`` of the pipeline's file; production is read-only by default.
        unlocked: whether the operator unlocked this session.
        replay: whether the session shows a recording.
    """
    if replay:
        return Access(False, "this is a recording")
    if flag:
        return Access(False, "started with --read-only")
    if configured:
        return Access(False, "readOnly is enabled in the pipeline file")
    if is_production(environment) and not unlocked:
        return Access(False, "the environment is production; unlock it first", unlockable=True)
    return Access(True)


def require(allowed: Access, what: str) -> None:
    """Require that a session may make changes.

    Args:
        allowed: the result of :func:`access`.
        what: the action, as the beginning of a sentence: "applying a plan".

    Raises:
        Refused: the session is read-only.
    """
    if allowed.writable:
        return
    hint = ""
    if allowed.unlockable:
        hint = (
            "Unlock the session first: u in the console, --unlock where a command has it, "
            "unlock=True in Python."
        )
    raise Refused(
        f"{what} is refused: {allowed.reason}", unchanged="Nothing was changed.", hint=hint
    )


def require_shown(allowed: Access, *, enabled: bool) -> None:
    """Require that a session may show what is in records.

    Args:
        allowed: the result of :func:`access`; who may only look at a pipeline sees no contents.
        enabled: ``console.showRecords`` of the pipeline's file.

    Raises:
        Refused: it may not.
    """
    if enabled:
        require(allowed, "showing the contents of records")
        return
    raise Refused(
        "showing the contents of records is refused: console.showRecords is disabled in the "
        "pipeline file",
        unchanged="Nothing was shown.",
    )
