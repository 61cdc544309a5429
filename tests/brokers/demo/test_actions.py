"""Applications of a running demo stop, and start on the other cluster."""

from __future__ import annotations

from k2ktui.demo.applications import Applications, LiveGroup, Side
from k2ktui.demo.running import DemoAction, DemoActions
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import create_topic, eventually, produce
from tests.support.oracle.group_offsets import committed


def test_clients_stop_and_start_on_the_other_cluster(source: KafkaNode, target: KafkaNode) -> None:
    topic = create_topic(source)
    create_topic(target, topic)
    sides: tuple[Side, ...] = ("source", "target")
    groups = [LiveGroup(f"{topic}-g", side, (topic,)) for side in sides]
    applications = Applications(source.bootstrap, target.bootstrap, 0.0, groups)
    actions = DemoActions(applications, source)
    name = groups[0].name
    here = f"1 group on the source ({name})"
    there = f"1 group on the target ({name})"
    runs = f"The source cluster, {source.bootstrap}, runs."
    try:
        applications.start()
        said = actions.perform(DemoAction.SHOW)
        assert said == f"Producers write to the source. Consumers: {here}, {there}. {runs}"
        said = actions.perform(DemoAction.STOP_TARGET_CONSUMERS)
        assert said == f"Producers write to the source. Consumers: {here}. {runs}"
        assert actions.perform(DemoAction.STOP_PRODUCERS).startswith("The producers are stopped.")
        said = actions.perform(DemoAction.STOP_CONSUMERS)
        assert said == f"The producers are stopped. The consumers are stopped. {runs}"
        said = actions.perform(DemoAction.START_ON_TARGET)
        assert said == f"Producers write to the target. Consumers: {there}. {runs}"
        produce(target, topic, [b"after the failover"])
        read = {(topic, 0): 1}
        eventually(lambda: committed(target, name) == read, "the group reads on the target")
        said = actions.perform(DemoAction.START_ON_SOURCE)
        assert said == f"Producers write to the source. Consumers: {here}. {runs}"
    finally:
        applications.stop()
