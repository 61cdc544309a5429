"""Assembles and runs a pipeline: control topics, Spark, fencing, driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from time import time
from typing import Any

from k2ktui.config.model import PipelineConfig
from k2ktui.errors import K2kError
from k2ktui.kafka.clients import Cluster, source_cluster, target_cluster
from k2ktui.kafka.control import ControlTopics, ensure_control_topics
from k2ktui.kafka.properties import wire
from k2ktui.replication.commit_state import CommittedPositions, CommitTopic
from k2ktui.replication.discovery import TopicDiscovery
from k2ktui.replication.driver import Driver
from k2ktui.replication.events import Event, Finished
from k2ktui.replication.fencing import TransactionFencer
from k2ktui.replication.heartbeat import Heartbeat
from k2ktui.replication.spark import SparkRuntime
from k2ktui.replication.spark_settings import local_cores
from k2ktui.runtime.stop_flag import StopFlag

_TRANSACTION_TIMEOUT_MS = 60_000


def commit_topic(config: PipelineConfig, partitions: int) -> CommitTopic:
    """Return how this pipeline uses the commit topic."""
    return CommitTopic(
        config.coordination.commit.topic,
        partitions,
        config.coordination.commit.group,
        config.features.optimize_offset_commit_partition,
    )


def make_fencer(
    config: PipelineConfig, target: Cluster, options: Mapping[str, Any], partitions: int
) -> TransactionFencer:
    """Return this pipeline's transaction fencer; the caller closes it.

    Args:
        config: the pipeline.
        target: its target cluster.
        options: connection options of the target's producer.
        partitions: number of partitions of the commit topic.
    """
    timeout = config.target.properties("producer").get("transaction.timeout.ms")
    return TransactionFencer(
        target,
        options,
        name=config.name,
        topic=commit_topic(config, partitions),
        transactional=config.features.exactly_once,
        timeout_ms=int(timeout or _TRANSACTION_TIMEOUT_MS),
        sync_timeout=config.coordination.commit.sync_timeout_s,
    )


class Pipeline:
    """One pipeline that can run once.

    Args:
        config: the pipeline's configuration.
        report: called with every event, from the thread that calls ``run``.
        until_caught_up: end when every partition has reached the end it had at the start.
        preflight: called first, while Spark starts; an exception ends the run.
    """

    def __init__(
        self,
        config: PipelineConfig,
        report: Callable[[Event], None],
        *,
        until_caught_up: bool = False,
        preflight: Callable[[], None] | None = None,
    ) -> None:
        self._config = config
        self._report = report
        self._until_caught_up = until_caught_up
        self._preflight = preflight
        self._began_at = time()
        self._driver: Driver | None = None
        self._stop_early = StopFlag()
        self._heartbeat = Heartbeat(config, self._began_at)
        source, target = wire(config.source, "consumer"), wire(config.target, "producer")
        self._spark = SparkRuntime(config.spark, f"k2ktui {config.name}", source, target)
        self._target_options = target

    def run(self) -> Finished:
        """Run until stopped, or until caught up.

        Raises:
            K2kError: the pipeline could not start, or another driver took over.
        """
        source, target = source_cluster(self._config), target_cluster(self._config)
        with ThreadPoolExecutor(1) as pool:
            starting = pool.submit(self._spark.start)
            try:
                if self._preflight is not None:
                    self._preflight()
                control = ensure_control_topics(self._config, target)
                self._heartbeat.start()
                starting.result()
                self._spark.warm_up(self._slots())
                self._driver = self._make_driver(source, target, control)
                if self._stop_early.is_set():
                    self._driver.stop()
                return self._driver.run(self._slots())
            except K2kError as error:
                self._heartbeat.failed(error.message)
                raise
            finally:
                starting.exception()
                self._heartbeat.stop()
                self._spark.stop()

    def stop(self) -> None:
        """Request a stop and return at once; called from signal handlers."""
        self._heartbeat.ending()
        self._stop_early.set()
        if self._driver is not None:
            self._driver.stop()

    def abandon(self) -> None:
        """Remove temporary files when there is no time to stop; the processes end on their own."""
        self._spark.forget_files()

    def _observed(self, event: Event) -> None:
        self._heartbeat.observe(event)
        for note in self._heartbeat.notes():
            self._report(note)
        self._report(event)

    def _slots(self) -> int:
        settings = self._config.spark
        return settings.slots or local_cores(settings.master) or self._spark.parallelism

    def _make_driver(self, source: Cluster, target: Cluster, control: ControlTopics) -> Driver:
        config = self._config
        fencer = make_fencer(config, target, self._target_options, control.commit_partitions)
        return Driver(
            config,
            fencer,
            self._spark,
            TopicDiscovery(config, source, target, CommittedPositions(target, fencer.topic)),
            self._observed,
            mapping_partitions=control.mapping_partitions,
            until_caught_up=self._until_caught_up,
            began_at=self._began_at,
        )
