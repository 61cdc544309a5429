"""Which pipelines of a directory a site drill moves; pure.

The site is one cluster, by its id: labels are written by hand, and two files may give one label to
two clusters. A file whose source is not known is never left out silently: it may be a member.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from k2ktui.errors import ConfigError, Refused
from k2ktui.text import list_names, safe_message, safe_text

_NAMED = 10
_UNCHANGED = "No drill was begun."


@dataclass(frozen=True, slots=True)
class SiteFile:
    """A pipeline file of the directory, with what is known of its clusters.

    Attributes:
        file: its path.
        pipeline: name of the pipeline; that of the file if it is not valid.
        source, target: names of the clusters, as the file or its addresses give them.
        source_id, target_id: their ids, "" if not known. The source's is that of the pipeline's
            run record, if it has one: another cluster may answer under a dead one's address.
        topics: the source topics that it copies, as far as known.
        why: why the source is not known; "" if it is.
    """

    file: str
    pipeline: str
    source: str = ""
    target: str = ""
    source_id: str = ""
    target_id: str = ""
    topics: frozenset[str] = frozenset()
    why: str = ""


@dataclass(frozen=True, slots=True)
class SiteSelection:
    """What a site drill moves.

    Attributes:
        name: the site's name, which is typed to confirm.
        cluster: id of the cluster that is left.
        members: the pipelines, in the order of their names.
        unknown: files that may be members: they are left out only by a typed choice.
        staying: all files that it does not move and whose source is the cluster, or not known.
    """

    name: str
    cluster: str
    members: tuple[SiteFile, ...]
    unknown: tuple[SiteFile, ...] = ()
    staying: tuple[SiteFile, ...] = ()


def select_site(
    files: Sequence[SiteFile], wanted: str, only: Callable[[str], bool] = lambda _: True
) -> SiteSelection:
    """Return the pipelines that leave a cluster.

    Args:
        files: all files of the directory.
        wanted: name or id of the cluster that is left (``--from``); "" for the only one.
        only: whether a pipeline of this name is in the selection (``--only``).

    Raises:
        ConfigError: no file has this source, or it must be named.
        Refused: the name is that of two clusters, or two pipelines move the same topic.
    """
    known = [file for file in files if file.source_id]
    cluster, name = _find_cluster(known, wanted)
    members = tuple(
        sorted(
            (file for file in known if file.source_id == cluster and only(file.pipeline)),
            key=lambda file: (file.pipeline, file.file),
        )
    )
    unknown = tuple(file for file in files if not file.source_id and only(file.pipeline))
    if not members:
        raise ConfigError(
            f"--only selects no pipeline of {safe_text(name)}"
            + (f"; the source of {_names(unknown)} is not known" if unknown else ""),
            unchanged=_UNCHANGED,
            hint="The pattern matches whole names of pipelines.",
        )
    _refuse_twice(members)
    _refuse_two_targets(members)
    staying = tuple(f for f in files if f.source_id in ("", cluster) and f not in members)
    return SiteSelection(name, cluster, members, unknown, staying)


def _find_cluster(known: Sequence[SiteFile], wanted: str) -> tuple[str, str]:
    """Return the id and the name of the cluster that is left."""
    labels: dict[str, set[str]] = defaultdict(set)
    for file in known:
        labels[file.source].add(file.source_id)
    ids = {file.source_id for file in known}
    if wanted in ids:
        return wanted, wanted
    if not wanted:
        return _find_only_cluster(known, ids, labels)
    ids_of_name = labels.get(wanted, set())
    if len(ids_of_name) > 1:
        raise Refused(
            f"{safe_text(wanted)} is the name of two clusters: "
            f"{list_names(sorted(ids_of_name), _NAMED)}",
            unchanged=_UNCHANGED,
            hint="Give the id of the cluster with --from, or correct the names in the files.",
        )
    if not ids_of_name:
        raise ConfigError(
            f"no pipeline has the source {safe_text(wanted)}",
            unchanged=_UNCHANGED,
            hint=_choices(labels),
        )
    return next(iter(ids_of_name)), wanted


def _find_only_cluster(
    known: Sequence[SiteFile], ids: set[str], labels: dict[str, set[str]]
) -> tuple[str, str]:
    if len(ids) == 1:
        cluster = next(iter(ids))
        return cluster, sorted(labels)[0]
    if not ids:
        raise ConfigError(
            "the source of no pipeline is known",
            unchanged=_UNCHANGED,
            hint="Look at k2ktui fleet -d DIR: neither a source nor a run record could be read.",
        )
    both = ids & {file.target_id for file in known}
    text = "has pipelines of both directions" if both else "has pipelines of several sources"
    raise ConfigError(
        f"the directory {text}, and --from does not say which cluster is left",
        unchanged=_UNCHANGED,
        hint=_choices(labels),
    )


def _choices(labels: dict[str, set[str]]) -> str:
    names = list_names(sorted(labels), _NAMED)
    return f"Name the cluster that is left: --from CLUSTER, one of {names}, or its id."


def _refuse_twice(members: Sequence[SiteFile]) -> None:
    """Refuse two files of one pipeline: their drills would fence each other."""
    files: dict[tuple[str, str], str] = {}
    for member in members:
        other = files.setdefault((member.pipeline, member.target_id), member.file)
        if other != member.file:
            raise Refused(
                f"{safe_text(other)} and {safe_text(member.file)} are files of the same pipeline, "
                f"{safe_text(member.pipeline)}",
                unchanged=_UNCHANGED,
                hint="Remove one of them from the directory.",
            )


def _refuse_two_targets(members: Sequence[SiteFile]) -> None:
    """Refuse a topic that two members move: its clients can go to one target only."""
    movers: dict[str, list[SiteFile]] = defaultdict(list)
    for member in members:
        for topic in member.topics:
            movers[topic].append(member)
    twice = {topic: files for topic, files in movers.items() if len(files) > 1}
    if not twice:
        return
    topic = min(twice)
    to = " and ".join(
        f"{safe_text(file.target)} (pipeline {safe_text(file.pipeline)})" for file in twice[topic]
    )
    more = f", and {len(twice) - 1:,} more topics are" if len(twice) > 1 else ""
    raise Refused(
        f"topic {safe_text(topic)} is copied to {to}{more}: its clients can go to one of them only",
        unchanged=_UNCHANGED,
        hint="Select the pipelines that are moved with --only REGEX.",
    )


def _names(files: Sequence[SiteFile]) -> str:
    return list_names([file.file for file in files], _NAMED)


def describe_unknown(file: SiteFile) -> str:
    """Return the line about a file whose source is not known."""
    return f"{safe_text(file.file)}: {safe_message(file.why)}"
