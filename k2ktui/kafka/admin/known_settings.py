"""Settings of topics that are needed repeatedly: known for a minute, or for 10 if there are many.

A broker lists dozens of settings of each topic. For hundreds of topics that takes it and this
process longer than everything else that topic discovery reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic

from k2ktui.errors import K2kError
from k2ktui.kafka.admin.topics import Settings, topic_settings
from k2ktui.kafka.clients import Cluster

_FRESH_S = 60.0
_MANY, _FRESH_MANY_S = 100, 600.0


class KnownSettings:
    """Reads settings of one cluster's topics; not thread-safe.

    Args:
        cluster: the cluster.
        clock: monotonic seconds.
    """

    def __init__(self, cluster: Cluster, clock: Callable[[], float] = monotonic) -> None:
        self._cluster, self._clock = cluster, clock
        self._known: dict[str, tuple[str, Settings]] = {}
        self._read_at = -_FRESH_MANY_S

    def read(self, topics: Mapping[str, str]) -> dict[str, Settings | K2kError]:
        """Return the settings of topics; one whose settings cannot be read maps to its error.

        Args:
            topics: topic ids by name, empty if the broker has none. A topic with another id than
                before was created again.

        Raises:
            ConnectionFailed, TimedOut: the cluster did not answer.
        """
        now = self._clock()
        if now - self._read_at >= (_FRESH_MANY_S if len(topics) > _MANY else _FRESH_S):
            self._known.clear()
            self._read_at = now
        new = [name for name, id_ in topics.items() if self._known.get(name, (None,))[0] != id_]
        unread: dict[str, Settings | K2kError] = {}
        for name, settings in topic_settings(self._cluster, new).items():
            if isinstance(settings, K2kError):
                unread[name] = settings  # read again the next time
            else:
                self._known[name] = topics[name], settings
        return {name: unread.get(name) or self._known[name][1] for name in topics}
