"""The section ``parity``: settings, quotas and ACLs that are kept in step; not a Lenses setting."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from k2ktui.config.clusters import Section
from k2ktui.config.patterns import Pattern
from k2ktui.config.scalars import Text
from k2ktui.engine.parity.acls import AclWrite
from k2ktui.engine.parity.rules import ParityKind, ParityMode, ParityRules


def _mode(value: Any) -> Any:
    # YAML 1.1, which a bare off is written in, has it as a boolean; so have files written anew.
    is_off = value is False or (isinstance(value, Text) and value.boolean is False)
    return "off" if is_off else value


Mode = Annotated[
    ParityMode,
    BeforeValidator(_mode),
    WithJsonSchema({"enum": ["off", "report", "apply", False]}),
]

# MirrorMaker 2's config.properties.exclude, with the limits on timestamps that Kafka has added
# since, what Kafka 4 has removed, and what one vendor's brokers have.
NOT_COPIED = (
    r"(follower|leader)\.replication\.throttled\.replicas",
    r"message\.timestamp\.(difference|before|after)\.max\.ms",
    r"message\.timestamp\.type",
    r"unclean\.leader\.election\.enable",
    r"min\.insync\.replicas",
    r"message\.(format\.version|downconversion\.enable)",
    r"(confluent|redpanda)\..*",
)


class ParitySection(Section):
    """One kind of values: what is compared, and whether ``k2ktui sync`` changes it."""

    mode: Mode = "report"
    include: tuple[Pattern, ...] = (".*",)
    exclude: tuple[Pattern, ...] = ()

    @property
    def rules(self) -> ParityRules:
        """Return it without the file's types."""
        return ParityRules(self.mode, self.include, self.exclude)


class TopicConfigParity(ParitySection):
    """Settings of replicated topics; the patterns are for names of settings."""

    exclude: tuple[Pattern, ...] = NOT_COPIED


class AclParity(ParitySection):
    """ACLs; the patterns are for principals, such as ``User:billing``.

    ``write`` is for the rights that applications need only after a failover.
    """

    write: AclWrite = "report"


class QuotaParity(ParitySection):
    """Client quotas; the patterns are for entities, such as ``user=billing,client-id=app``."""


class Parity(Section):
    """What is compared besides records and groups."""

    topic_configs: TopicConfigParity = TopicConfigParity()
    acls: AclParity = AclParity()
    quotas: QuotaParity = QuotaParity()

    def rules_of(self, kind: ParityKind) -> ParityRules:
        """Return the rules for one kind of values."""
        return {
            ParityKind.TOPIC_CONFIG: self.topic_configs,
            ParityKind.QUOTA: self.quotas,
            ParityKind.ACL: self.acls,
        }[kind].rules
