"""The pair of clusters that a pipeline copies between, as its run record states it.

A cluster that was restored from a backup has another id. If an operator accepts it
(``k2ktui start --accept-cluster``), the former id is an alias from then on: records that name it
(registrations of producer ids, kept commits, drills) belong to the same cluster. An alias never
decides which cluster may be read and written *now*: only the latest id does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from k2ktui.engine.wire import TEXT, Wire, defaulted, list_of, optional

Side = Literal["source", "target"]
# More restores than any cluster has.
_MOST_ALIASES = 1_000


@dataclass(frozen=True, slots=True)
class ClusterPair:
    """The ids of source and target cluster, and the mapping topic; it is empty without mappings.

    All are empty in run records of earlier releases: what such a run copied is unknown.

    Attributes:
        source, target: the ids that the clusters have now.
        mapping_topic: the mapping topic.
        source_aliases, target_aliases: the ids that they had before, the latest first.
    """

    source: str = ""
    target: str = ""
    mapping_topic: str = ""
    source_aliases: tuple[str, ...] = ()
    target_aliases: tuple[str, ...] = ()

    @property
    def is_known(self) -> bool:
        """Whether both cluster ids are known."""
        return bool(self.source and self.target)

    @property
    def sources(self) -> frozenset[str]:
        """Every id that the source cluster has had."""
        return frozenset((self.source, *self.source_aliases)) - {""}

    @property
    def targets(self) -> frozenset[str]:
        """Every id that the target cluster has had."""
        return frozenset((self.target, *self.target_aliases)) - {""}

    def find_changed(self, now: ClusterPair) -> tuple[tuple[Side, str, str], ...]:
        """Return the clusters that are others now: side, id on record, id now.

        An id that is not known is not compared. An alias is another id: the cluster that had it
        before a restore may still be there.
        """
        sides: tuple[tuple[Side, str, str], ...] = (
            ("source", self.source, now.source),
            ("target", self.target, now.target),
        )
        return tuple(
            change for change in sides if change[1] and change[2] and change[1] != change[2]
        )

    def follow(self, recorded: ClusterPair) -> ClusterPair:
        """Return this pair with the aliases on record of the clusters that have the same id."""
        return replace(
            self,
            source_aliases=recorded.source_aliases if recorded.source == self.source else (),
            target_aliases=recorded.target_aliases if recorded.target == self.target else (),
        )

    def accept(self, now: ClusterPair) -> ClusterPair:
        """Return the pair ``now``, with this one's ids as aliases where they differ."""
        return replace(
            now,
            source_aliases=_accept(self.source, self.source_aliases, now.source),
            target_aliases=_accept(self.target, self.target_aliases, now.target),
        )

    def is_same(self, other: ClusterPair) -> bool:
        """Whether both are known to copy between the same clusters, by the aliases of either."""
        pairs = self, other
        return (
            self.is_known
            and other.is_known
            and other.source in find_ids(self.source, pairs)
            and other.target in find_ids(self.target, pairs)
        )

    def as_fields(self) -> dict[str, Any]:
        """Return the fields of a run record; none if the pair is unknown."""
        return _WIRE.write(self) if self.is_known else {}


_ALIASES = list_of(TEXT, _MOST_ALIASES)
_WIRE = Wire(
    ClusterPair,
    source=defaulted("sourceCluster", TEXT, ""),
    target=defaulted("targetCluster", TEXT, ""),
    mapping_topic=defaulted("mappingTopic", TEXT, ""),
    source_aliases=optional("sourceAliases", _ALIASES, ()),
    target_aliases=optional("targetAliases", _ALIASES, ()),
)
UNKNOWN_PAIR = ClusterPair()


def _accept(former: str, aliases: tuple[str, ...], now: str) -> tuple[str, ...]:
    if not former or former == now:
        return aliases
    return (former, *(alias for alias in aliases if alias not in (former, now)))


def find_ids(cluster: str, pairs: Iterable[ClusterPair]) -> frozenset[str]:
    """Return every id that a cluster has had, its own included, by the aliases of these pairs.

    Each pipeline knows the aliases that were accepted for its own source and target; together they
    tell which ids name one cluster. "" is not an id and has no aliases.
    """
    if not cluster:
        return frozenset()
    ids_of_cluster = {cluster}
    groups = [ids for pair in pairs for ids in (pair.sources, pair.targets)]
    while added := {id_ for ids in groups if ids & ids_of_cluster for id_ in ids} - ids_of_cluster:
        ids_of_cluster |= added
    return frozenset(ids_of_cluster)


def read_cluster_pair(value: Mapping[str, Any]) -> ClusterPair:
    """Return the pair in a run record's value.

    Raises:
        MalformedRecord: a field is not text, or the aliases are no list of texts.
    """
    return _WIRE.read(value)
