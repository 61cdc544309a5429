"""Whether a drill may move the clients' name, and what its answers prove; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from k2ktui.engine.drill.checks import DrillKind
from k2ktui.engine.drill.hooks import HookRole
from k2ktui.engine.drill.model import Drill, Fence
from k2ktui.text import list_names, safe_text

_NAMED = 5
PRODUCER_IDS = (
    "Idempotent producers that follow the name keep their producer ids, and each cluster counts "
    "ids from 0: where the target has given the same id to another producer, it may refuse "
    "records, or acknowledge records that it does not write (D53); nobody can count them "
    "afterwards. A batch in flight at the cut-off may be there twice."
)


def describe_transactional(names: Sequence[str] | None) -> str:
    """Return what becomes of transactional producers.

    Args:
        names: those that the source knows; None if it does not tell them all.
    """
    if names is not None and not names:
        return ""
    who = "which ones is not known" if names is None else list_names(names, _NAMED)
    return (
        f"Transactional producers that follow the name lose their ids ({who}). A transaction that "
        "was open fails. Those of librdkafka go on once it is aborted; those of Java end with "
        "InvalidPidMappingException: their applications have to make new producers, or be "
        "restarted."
    )


def describe_fenced(names: Sequence[str] | None) -> str:
    """Return whose open transactions end at a cut-off, for its question; names as above."""
    if names is not None and not names:
        return ""
    who = "which ones is not known" if names is None else list_names(names, _NAMED)
    return (
        f"Transactional producers ({who}): a transaction that is open then is aborted at its "
        "time-out, and its producer fenced, also if the drill is aborted: its application has to "
        "make a new one, or be restarted."
    )


@dataclass(frozen=True, slots=True)
class NameAnswer:
    """What one address of the clients' name, or of a broker that it advertises, answers.

    Attributes:
        address: ``HOST:PORT``.
        cluster: id of the cluster that answers; "" for none.
        problem: why no cluster id is known; "" if one is.
    """

    address: str
    cluster: str = ""
    problem: str = ""


def explain_no_cluster(answers: Iterable[NameAnswer], cluster: str) -> str:
    """Return why a name does not lead to a cluster; "" if each of its addresses does."""
    answers = list(answers)
    wrong = [
        f"{safe_text(answer.address)}: "
        + (f"cluster {safe_text(answer.cluster)}" if answer.cluster else answer.problem)
        for answer in answers
        if answer.cluster != cluster
    ]
    if not wrong and answers:
        return ""
    shown = list_names(wrong, _NAMED) if wrong else "the name has no address"
    count = f"{len(wrong):,} of {len(answers):,} addresses"
    return f"{count} of the name do not answer as cluster {safe_text(cluster)}: {shown}"


def cut_addresses(drill: Drill) -> tuple[str, ...]:
    """Return where clients reached the source before a cut-off, also one of another file."""
    cuts = (record.addresses for record in drill.hooks if record.role is HookRole.CUT_OFF)
    return tuple(dict.fromkeys(address for addresses in cuts for address in addresses))


def kept_ttl(drill: Drill) -> int:
    """Return how long caches may have the records as they stood before a redirect, also one of
    another file, in seconds.
    """
    redirects = (record for record in drill.hooks if record.role is HookRole.REDIRECT)
    return max((record.ttl_s for record in redirects), default=0)


def list_clusters(answers: Iterable[NameAnswer]) -> list[str]:
    """Return the ids of the clusters that answer."""
    return sorted({answer.cluster for answer in answers if answer.cluster})


def explain_refusal(
    kind: DrillKind, fence: Fence, some: str, roles: Sequence[str]
) -> tuple[str, str]:
    """Return why a drill is not begun because of ``drill.redirect``, and what to do; "" if it is.

    Args:
        kind: its kind.
        fence: how it fences producers.
        some: pattern of the topics or groups of a drill over some of them.
        roles: the roles of the commands in the file's section; empty without one.
    """
    if kind is DrillKind.REHEARSE:
        return "", ""
    if fence is Fence.CUT_OFF:
        if some:
            why = (
                "a drill over some topics or groups cuts no clients off: it would meet others, too"
            )
            return why, "Fence with --fence hand or --fence acl."
        if not roles:
            why = "the pipeline's file has no drill.redirect, so clients cannot be cut off"
            return why, "Add drill.redirect to the file, or fence by hand or with access rules."
    if not roles or some:
        return "", ""
    if kind.is_switchover and len(roles) == 1:
        why = "drill.redirect cannot cut clients off, and no running client follows a name while "
        return (
            f"{why}its cluster answers",
            "Add cut and restore to drill.redirect, or take it out of the file.",
        )
    if kind.is_switchover and fence is not Fence.CUT_OFF:
        why = "drill.redirect moves a name, and no running client follows it while its cluster "
        return f"{why}answers", "Begin the drill with --fence cutoff."
    return "", ""
