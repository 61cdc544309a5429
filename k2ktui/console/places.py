"""What ``:go`` finds by name: topics, groups and drills, each a row of a screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

from k2ktui.engine.drill.site import SiteDrill
from k2ktui.text import safe_text
from k2ktui.watch.model import View


@dataclass(frozen=True, slots=True)
class Place:
    """A row of a top-level screen.

    Attributes:
        kind: what it is, as a noun.
        entry: id of the screen.
        key: of the row.
    """

    kind: str
    entry: str
    key: Hashable


def list_places(view: View, sites: Iterable[SiteDrill] = ()) -> Mapping[str, Place]:
    """Return what can be gone to, by its name as it is shown; sorted.

    A topic is the row of its first partition. What has the name of something else is told apart
    by its kind: ``orders (topic)``, ``orders (group)``.

    Args:
        view: of a pipeline, or of the table of pipelines, which has none of these.
        sites: the site drills of a directory.
    """
    partitions: dict[str, int] = {}
    for topic, partition in (row.key for row in view.partitions):
        partitions[topic] = min(partition, partitions.get(topic, partition))
    named = [
        *((topic, Place("topic", "replication", (topic, n))) for topic, n in partitions.items()),
        *((group.group, Place("group", "groups", group.group)) for group in view.summaries),
        *((drill.id, Place("drill", "drill", drill.id)) for drill in view.drills),
        *((site.id, Place("site drill", "site_drills", site.id)) for site in sites),
    ]
    times = Counter(name for name, _ in named)
    places = {
        f"{shown} ({place.kind})" if times[name] > 1 else shown: place
        for name, place in named
        if (shown := safe_text(name))
    }
    return {name: places[name] for name in sorted(places)}
