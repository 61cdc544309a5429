"""Keep the mappings that consumer groups need, beside a run that copies.

The mapping topic deletes its records by age. ``k2ktui sync`` writes again what groups need in each
of its polls; a run that copies does so here, since a pipeline may have no ``sync``.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from k2ktui.config.model import PipelineConfig
from k2ktui.errors import K2kError
from k2ktui.kafka.clients import target_cluster
from k2ktui.replication.preflight.checks import Check
from k2ktui.runtime.background import BackgroundRunner
from k2ktui.sync.commit_snapshots import list_kept_commits
from k2ktui.sync.mapping.by_content import find_unmapped
from k2ktui.sync.mapping.pipeline_mappings import PipelineMappings
from k2ktui.sync.mapping.source import NothingCopied
from k2ktui.sync.store import StateStore
from k2ktui.text import duration, list_names, safe_text

# Soon after a start, a failure, or a change of the leader. The mappings are not held in memory
# between two turns, so a turn reads the whole topic.
_SOON_S, _LONGEST_S = 10.0, 3600.0
# As long as no group is known.
_IDLE_S = 30.0
_CHECK = "needed mappings"
# Mappings are written again in the second half of their time; less is left where that fails.
_SHARE_LEFT = 0.25
_NAMED = 5


class MappingKeeper(BackgroundRunner):
    """Republishes the mappings that groups need, before the topic's retention deletes them.

    The groups are those of the commit snapshots on the target, which this run, an earlier one or
    ``k2ktui sync`` has written: it takes no right on the source, and continues while that is down.

    Args:
        config: the pipeline.
        report: called when it begins to fail, at growing intervals, and when it works again.
        is_wanted: whether this run does it now; of runs that share a pipeline, one does.
        feed: called with the epoch seconds at which the first needed mapping expires; None if none
            does, or if it is not known.
    """

    failing = PipelineMappings.not_kept
    recovered = "mappings that consumer groups need are written again before they expire"

    def __init__(
        self,
        config: PipelineConfig,
        report: Callable[[str], None],
        is_wanted: Callable[[], bool] = lambda: True,
        feed: Callable[[float | None], None] = lambda at: None,
    ) -> None:
        super().__init__("mappings", _SOON_S, report)
        self._config, self._is_wanted, self._feed = config, is_wanted, feed

    def work(self) -> None:
        """Read what is mapped and needed, and republish what is old."""
        self.interval_s = _SOON_S
        if not self._is_wanted():
            self._feed(None)  # the run that leads says it
            return
        target = target_cluster(self._config)
        mappings, store = PipelineMappings(self._config, target), StateStore(self._config, target)
        try:
            self._keep(mappings, store)
        except NothingCopied:
            return
        finally:
            store.close()
            mappings.close()

    def _keep(self, mappings: PipelineMappings, store: StateStore) -> None:
        copier = mappings.read_copier()
        chosen = self._config.consumer_groups.matches
        commits = list_kept_commits(store.read().commits, copier.clusters, chosen)
        if not commits:
            self._feed(None)
            self.interval_s = _IDLE_S
            return
        mappings.read(copier, commits)
        mappings.keep()
        mappings.read(copier, commits)
        self._feed(mappings.expires_at(commits))
        self.interval_s = mappings.repeat_interval_s(_LONGEST_S)


def check_mappings(config: PipelineConfig) -> Check:
    """Check how long the mappings live that groups need; it keeps no run from starting."""
    if not config.features.offset_mapping:
        return Check.passes(_CHECK, "none are written (features.offsetMapping: disabled)")
    target = target_cluster(config)
    mappings, store = PipelineMappings(config, target), StateStore(config, target)
    try:
        return _check_mappings(config, mappings, store)
    except NothingCopied:
        return Check.passes(_CHECK, "nothing is mapped yet")
    except K2kError as error:
        return Check.unknown(_CHECK, error.message, error.hint)
    finally:
        store.close()
        mappings.close()


def _check_mappings(config: PipelineConfig, mappings: PipelineMappings, store: StateStore) -> Check:
    copier = mappings.read_copier()
    snapshots, topic = store.read().commits, safe_text(config.offset_mapping.topic)
    if not snapshots:
        return Check.unknown(
            _CHECK,
            "how long they live is not known: no snapshot of the source's groups is on the target",
            "start and sync write snapshots while they run, with the right to describe groups.",
        )
    commits = list_kept_commits(snapshots, copier.clusters, config.consumer_groups.matches)
    replicas = mappings.read(copier, {}).replicas
    expired = [at for at in commits if at in replicas and find_unmapped(replicas[at], commits[at])]
    if expired:
        return Check.warns(
            _CHECK,
            f"{topic} lacks what groups need of {list_names(sorted(expired), _NAMED)}",
            "k2ktui plan compares records instead, while the source answers: see what it finds.",
        )
    expires_at, expiry = mappings.expires_at(commits), mappings.expiry
    if expires_at is not None and expiry is not None and expiry.retention_ms is not None:
        return _judge_expiry(topic, expires_at - time.time(), expiry.retention_ms / 1000)
    if expiry is None:
        return Check.unknown(_CHECK, f"the retention of {topic} cannot be read")
    if expiry is not None and expiry.by_size:
        return Check.unknown(_CHECK, f"retention.bytes of {topic} decides how long they live")
    return Check.passes(_CHECK, f"none in {topic} expires")


def _judge_expiry(topic: str, left: float, retention: float) -> Check:
    text = f"the first in {topic} expires in {duration(max(0.0, left))}"
    if left >= _SHARE_LEFT * retention:
        return Check.passes(_CHECK, f"{text}, unless it is written again")
    return Check.warns(
        _CHECK,
        f"{text}, and was not written again",
        "Keep k2ktui start or k2ktui sync running; its log says why it writes none.",
    )
