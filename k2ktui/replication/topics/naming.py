"""Names of target topics, and the topics that are never copied."""

from __future__ import annotations

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.schemas.ids import SchemaPart
from k2ktui.engine.topics import KAFKA_INTERNAL_TOPICS, LEGAL_TOPIC
from k2ktui.engine.transforms.dead_letters import default_dead_letter_topic
from k2ktui.errors import ConfigError, K2kError, Refused
from k2ktui.registry.mapper import read_mapper_settings
from k2ktui.text import safe_text


def check_supported(config: PipelineConfig) -> None:
    """Refuse a pipeline whose features cannot be used as they are configured.

    Raises:
        ConfigError: a feature cannot be used as it is configured; the message names the key and
            what would break silently if it were ignored.
    """
    if config.features.schema_mapping:
        read_mapper_settings(config)
    _check_routing(config)
    if config.features.bidirectional_replication:
        _check_bidirectional(config)


def _check_routing(config: PipelineConfig) -> None:
    routing = config.replication.sink.routing
    if routing is None:
        return
    for name, transform in config.replication.transforms():
        for part in SchemaPart if len(routing.topics) > 1 else ():
            if transform.follows_target_name(part):
                raise ConfigError(
                    f"{name}: the subject of the {part} follows the target topic's name, and "
                    "replication.sink.topic has an expression with several topics",
                    unchanged="Nothing was registered, and nothing was copied.",
                    hint=f"Name the subject in encode.{part}, with a schemaFile if the target's "
                    "registry lacks the schema; or declare one topic.",
                )
        if transform.explode is not None:
            raise ConfigError(
                f"{name} has explode, and replication.sink has an expression: the two cannot be "
                "combined",
                unchanged="Nothing was copied.",
                hint="Take explode out of the rule, or the expression out of replication.sink.",
            )


def _check_bidirectional(config: PipelineConfig) -> None:
    if config.replication.sink.routing is not None:
        raise ConfigError(
            "replication.sink has an expression and features.bidirectionalReplication is enabled: "
            "the way back cannot tell which topic a record came from",
            unchanged="Nothing was copied.",
            hint="Use source, {prefix, suffix}, {static} or {staticMapping} in "
            "replication.sink.topic, and source or producer in replication.sink.partition.",
        )
    if config.bidirectional.mode == "provenance" and not config.features.exactly_once:
        raise ConfigError(
            "bidirectional.mode is provenance and features.exactlyOnce is disabled: without "
            "transactions, the opposite pipeline cannot recognize this pipeline's records, and "
            "would copy them back",
            unchanged="Nothing was copied.",
            hint="Set features.exactlyOnce: enabled on both sides, or bidirectional.mode: pipeline "
            "or cluster, which mark records by a header.",
        )


def target_names(config: PipelineConfig, topic: str) -> tuple[str, ...]:
    """Return the names of a source topic's target topics; several if an expression chooses.

    Raises:
        Refused: the topic must not be copied, no static mapping covers it, or a target must not
            be written to or has an illegal name.
    """
    forbidden = _forbidden(config, topic)
    if forbidden:
        raise _refuse(topic, f"it is {forbidden}", "Remove it from replication.source.topic.")
    _check_transform_of_ids(config, topic)
    names = config.topic_mapping.targets_for(topic)
    if not names:
        raise _refuse(
            topic,
            "no pattern of replication.sink.topic.staticMapping matches it",
            "Add a pattern that does (for example '.*' last), or select fewer topics.",
        )
    for name in names:
        _check_target(config, topic, name)
    return names


def _check_target(config: PipelineConfig, topic: str, name: str) -> None:
    forbidden = _forbidden(config, name)
    if forbidden:
        raise _refuse(
            topic,
            f"its target {safe_text(name)} is {forbidden}",
            "Change replication.sink.topic.",
        )
    if not LEGAL_TOPIC.fullmatch(name):
        raise _refuse(
            topic,
            f"its target {safe_text(name, 80)!r} is not a valid topic name (1 to 249 letters, "
            "digits, '.', '_' and '-')",
            "Change replication.sink.topic.",
        )


def _check_transform_of_ids(config: PipelineConfig, topic: str) -> None:
    """Refuse a topic with schema ids whose transform does not leave them as they are."""
    schemas, transform = config.schema_rule_for(topic), config.replication.transform_for(topic)
    if schemas is None or transform is None:
        return
    parts = " and ".join(schemas.parts)
    if config.topic_mapping.kind == "expression":
        raise _refuse(
            topic,
            f"its {parts} may have schema ids, and replication.sink.topic has an expression: "
            "schemas are registered for one target topic",
            "Disable what has no schema ids (key, value) for this topic in schemaMapping.topics, "
            "or use a topic without an expression in replication.sink.",
        )
    if transform.may_change_ids(schemas.parts):
        raise _refuse(
            topic,
            f"schemaMapping and replication.transform both apply to it: its {parts} may have "
            "schema ids, and the transform decodes or changes them",
            "In schemaMapping.topics, disable the part that the transform decodes or changes (key, "
            "value) for this topic, or leave the topic out of the topics of replication.transform.",
        )
    if schemas.on_unknown == "deadLetter" and transform.routing is not None:
        raise _refuse(
            topic,
            "schemaMapping.onUnknownSchema is deadLetter and replication.sink.partition has an "
            "expression: dead letters of unknown ids are not written for such topics",
            "Set schemaMapping.onUnknownSchema: fail or passthrough, or use a partition without "
            "an expression in replication.sink.",
        )
    if schemas.on_unknown == "deadLetter":
        raise _refuse(
            topic,
            "schemaMapping.onUnknownSchema is deadLetter and replication.transform applies to it: "
            "the dead letter would not be the record of the source",
            "Set schemaMapping.onUnknownSchema: fail or passthrough, or leave it out of the topics "
            "of replication.transform.",
        )


def dead_letter_name(config: PipelineConfig, topic: str) -> str:
    """Return the name of a source topic's dead-letter topic on the target; "" if it has none.

    Raises:
        Refused: as for ``target_names``; or the dead-letter topic must not be written to, or has an
            illegal name.
    """
    chosen = config.dead_letter_topic_for(topic)
    if chosen is None:
        return ""
    target = target_names(config, topic)[0]
    name = chosen or default_dead_letter_topic(target)
    forbidden = _forbidden(config, name)
    if forbidden or not LEGAL_TOPIC.fullmatch(name):
        raise _refuse(
            topic,
            f"its dead-letter topic {safe_text(name, 80)} is "
            + (forbidden or "not a valid topic name (1 to 249 letters, digits, '.', '_' and '-')"),
            "Set another deadLetter.topic.",
        )
    return name


def _forbidden(config: PipelineConfig, topic: str) -> str:
    if topic in config.opposite_topics - config.control_topics:
        return "a control topic of the opposite pipeline"
    if topic in KAFKA_INTERNAL_TOPICS:
        return "an internal topic of Kafka"
    if topic in config.control_topics:
        return "a control topic of this pipeline"
    return ""


def _refuse(topic: str, why: str, hint: str) -> K2kError:
    return Refused(
        f"topic {safe_text(topic)} is not copied: {why}",
        unchanged="None of its records were written.",
        hint=hint,
    )
