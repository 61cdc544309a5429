"""Whether a session may change anything on the clusters of a pipeline: one rule for all of it.

The console greys what this refuses, and who writes asks :func:`require` first, so that a key that
was missed on a screen still changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from k2ktui.errors import Refused

PRODUCTION = frozenset({"production", "prod"})


@dataclass(frozen=True, slots=True)
class Access:
    """What a session may do.

    Attributes:
        writable: whether it may change clusters, start or stop jobs.
        reason: why not; empty if it may.
        unlockable: whether an operator may lift it for the session.
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
        flag: ``--read-only`` was given.
        configured: ``readOnly`` of the pipeline's file.
        environment: ``environment`` of the pipeline's file; production is read-only at first.
        unlocked: the operator lifted that for this session.
        replay: what is shown is a recording, there is nothing to change.
    """
    if replay:
        return Access(False, "this is a recording")
    if flag:
        return Access(False, "started with --read-only")
    if configured:
        return Access(False, "readOnly is enabled in the pipeline's file")
    if environment.strip().lower() in PRODUCTION and not unlocked:
        return Access(False, "the environment is production; unlock it first", unlockable=True)
    return Access(True)


def require(allowed: Access, what: str) -> None:
    """Return if a session may change something.

    Args:
        allowed: what :func:`access` decided.
        what: what was to be done, to begin a sentence: "applying a plan".

    Raises:
        Refused: it may not.
    """
    if allowed.writable:
        return
    mend = ""
    if allowed.unlockable:
        mend = "Unlock the session first: u in the console, --unlock where a command has it."
    raise Refused(
        f"{what} is refused: {allowed.reason}", unchanged="Nothing was changed.", mend=mend
    )
