"""Further listeners with TLS and SASL, and an authorizer, by properties alone."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AclOperation, AdminClient

from tests.support.clusters.kafka import TIMEOUT, create_topic, eventually
from tests.support.clusters.secure import MECHANISMS, SecureNode


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_rights_are_enforced(secure: SecureNode, mechanism: str) -> None:
    topic = create_topic(secure.node)
    secure.allow("guest", [AclOperation.DESCRIBE, AclOperation.READ], topic)

    def topics(user: str) -> set[str]:
        listed = AdminClient(secure.client(user, mechanism)).list_topics(timeout=TIMEOUT)
        return set(listed.topics)

    eventually(lambda: topic in topics("guest"), "the right has effect")
    assert topic not in topics("nobody")


def test_wrong_password_is_refused(secure: SecureNode) -> None:
    settings = secure.client("guest") | {"sasl.password": "wrong"}
    with pytest.raises(KafkaException):
        AdminClient(settings).list_topics(timeout=2)
