"""Access rules with which drills keep producers from the source, and that a release leaves there.

Whoever lets a pipeline copy again may not want its producers back yet; so they are named, with the
command that removes them.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress

from k2ktui.drill.changes.handler import UnusableChange, read_change
from k2ktui.engine.drill.changes import read_denied_topics
from k2ktui.engine.drill.model import ChangeKind, ChangeStatus, Drill
from k2ktui.errors import K2kError
from k2ktui.kafka.admin.acls import NoAuthorizer, denied_topics
from k2ktui.kafka.clients import source_cluster
from k2ktui.sync.flow import Flow
from k2ktui.text import counted, list_names, safe_message, safe_text

_NAMED = 3
_A_COMMAND = 20


def list_kept_fences(
    flow: Flow,
    drills: Iterable[Drill],
    topics: Collection[str] | None = None,
    unrecorded: Collection[str] = (),
) -> list[str]:
    """Return which topics of the source stay denied to producers, and how to allow them.

    Args:
        flow: the pipeline.
        drills: those whose rules may be there.
        topics: the topics that are released; None for those of the drills.
        unrecorded: topics that drills whose record is lost have moved: they may have denied these.

    Returns:
        Lines that are safe to print; none if nothing stays.
    """
    denied = {topic for drill in drills for topic in _read_denied(drill)}
    names = sorted({*unrecorded, *(denied if topics is None else denied.intersection(topics))})
    if not names:
        return []
    try:
        names = sorted(denied_topics(source_cluster(flow.config), names))
    except NoAuthorizer:
        return []
    except K2kError as error:
        unseen = f"may still be denied to all producers ({safe_message(error.message)})"
        return [*_describe(flow, names, unseen)]
    stay = "stays" if len(names) == 1 else "stay"
    return [*_describe(flow, names, f"{stay} denied to all producers")] if names else []


def _read_denied(drill: Drill) -> Iterator[str]:
    """Yield the topics to which a drill denies Write, and has not allowed it again."""
    for change in drill.changes:
        if change.kind is ChangeKind.ACLS and change.status is not ChangeStatus.UNDONE:
            with suppress(UnusableChange):
                yield from read_change(drill, change, read_denied_topics)


def _describe(flow: Flow, names: list[str], what: str) -> Iterator[str]:
    yield (
        f"{counted(len(names), 'topic')} of the source {what}, by access rules of a drill: "
        f"{list_names(names, _NAMED)}. A release does not remove them. Before producers write "
        "there again, run:"
    )
    for first in range(0, len(names), _A_COMMAND):
        some = (part for name in names[first : first + _A_COMMAND] for part in ("--topic", name))
        servers = flow.config.source.bootstrap_servers
        rule = ["--deny-principal", "User:*", "--operation", "Write"]
        command = ["kafka-acls.sh", "--bootstrap-server", servers, "--remove", *rule, *some]
        yield f"  {safe_text(shlex.join(command))}"
