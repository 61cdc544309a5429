"""The translation rule of each Java client property, for ``k2ktui.kafka.properties.translation``.

The names are those of Kafka 4.3's ConsumerConfig, ProducerConfig and AdminClientConfig.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_INT_MAX = 2_147_483_647


@dataclass(frozen=True)
class PropertyRule:
    """How one property is translated, ignored or refused.

    Attributes:
        librdkafka: librdkafka's name of it, or "" if it has none.
        wire: its keyword argument of kafka-python's connection manager, or "".
        bounds: minimum and maximum that the library accepts; the value is clamped to them.
        divide: divisor applied to the number (bytes to kilobytes).
        values: librdkafka's spelling of values that differ.
        ignored: why the property has no effect; "" if that needs no warning.
        harmless: values (suffixes, lower case) that are ignored without a warning.
        refused: what to do instead, if values other than harmless ones cannot be honored.
        security: whether ``k2ktui.kafka.auth.security`` reads it.
        one_of: the only values that a Java client accepts; () if there is no such list.
    """

    librdkafka: str = ""
    wire: str = ""
    bounds: tuple[int, int] | None = None
    divide: int = 1
    values: Mapping[str, str] = field(default_factory=dict)
    ignored: str = ""
    harmless: tuple[str, ...] = ()
    refused: str = ""
    security: bool = False
    one_of: tuple[str, ...] = ()


def _ms(librdkafka: str, wire: str = "", *, low: int = 0, high: int = _INT_MAX) -> PropertyRule:
    return PropertyRule(librdkafka, wire, bounds=(low, high))


_OTHERWISE = "k2ktui does this itself"
_NO_COUNTERPART = "the client library has no such setting"
_NO_GROUP = "k2ktui reads without a consumer group"
_BROKER_SIDE = "it applies to brokers only"
_OPENSSL = "OpenSSL's defaults are used"
_NO_JAVA = "a Java class cannot be loaded here; remove it"
_KERBEROS = "tickets are those of kinit, or of the keytab in KRB5_CLIENT_KTNAME"
_BYTES = "records are copied as bytes"
_BATCHES = "batches are copied as they are, without waiting for more"
_COMMITTED = "k2ktui never copies records of aborted or open transactions"
_ACKNOWLEDGED = "every write is acknowledged by all in-sync replicas"
_IDEMPOTENT = "every write is idempotent"

_ANY: dict[str, PropertyRule] = {
    "bootstrap.servers": PropertyRule("bootstrap.servers", "bootstrap_servers"),
    "client.dns.lookup": PropertyRule(
        "client.dns.lookup", "client_dns_lookup", values={"default": "use_all_dns_ips"}
    ),
    "client.id": PropertyRule("client.id", "client_id"),
    # The variables are filled when the file is read.
    "config.providers": PropertyRule(),
    "connections.max.idle.ms": _ms("connections.max.idle.ms", "connections_max_idle_ms"),
    "enable.metrics.push": PropertyRule("enable.metrics.push"),
    "metadata.max.age.ms": _ms("metadata.max.age.ms", "metadata_max_age_ms", low=1, high=86400000),
    "metadata.recovery.rebootstrap.trigger.ms": _ms("metadata.recovery.rebootstrap.trigger.ms"),
    "metadata.recovery.strategy": PropertyRule("metadata.recovery.strategy"),
    "metric.reporters": PropertyRule(ignored=_OTHERWISE),
    "metrics.num.samples": PropertyRule(ignored=_OTHERWISE),
    "metrics.recording.level": PropertyRule(ignored=_OTHERWISE),
    "metrics.sample.window.ms": PropertyRule(ignored=_OTHERWISE),
    "receive.buffer.bytes": _ms("socket.receive.buffer.bytes", high=100_000_000),
    "reconnect.backoff.max.ms": _ms(
        "reconnect.backoff.max.ms", "reconnect_backoff_max_ms", high=3_600_000
    ),
    "reconnect.backoff.ms": _ms("reconnect.backoff.ms", "reconnect_backoff_ms", high=3_600_000),
    "request.timeout.ms": _ms("socket.timeout.ms", "request_timeout_ms", low=10, high=300_000),
    "retry.backoff.max.ms": _ms("retry.backoff.max.ms", low=1, high=300_000),
    "retry.backoff.ms": _ms("retry.backoff.ms", low=1, high=300_000),
    "send.buffer.bytes": _ms("socket.send.buffer.bytes", high=100_000_000),
    "socket.connection.setup.timeout.max.ms": PropertyRule(
        wire="socket_connection_setup_timeout_max_ms", bounds=(1000, _INT_MAX)
    ),
    "socket.connection.setup.timeout.ms": _ms(
        "socket.connection.setup.timeout.ms", "socket_connection_setup_timeout_ms", low=1000
    ),
    "default.api.timeout.ms": PropertyRule(ignored=_NO_COUNTERPART),
}

_CONSUMER: dict[str, PropertyRule] = {
    "allow.auto.create.topics": PropertyRule(
        ignored="a reader never creates topics", harmless=("false",)
    ),
    "auto.commit.interval.ms": PropertyRule(ignored=_NO_GROUP),
    "auto.offset.reset": PropertyRule(),
    "check.crcs": PropertyRule("check.crcs"),
    "client.rack": PropertyRule("client.rack"),
    "enable.auto.commit": PropertyRule(ignored=_NO_GROUP, harmless=("false",)),
    "exclude.internal.topics": PropertyRule(ignored="patterns never match Kafka's internal topics"),
    # librdkafka requires fetch.max.bytes >= message.max.bytes, whose default is 1000000.
    "fetch.max.bytes": _ms("fetch.max.bytes", low=1_000_000, high=_INT_MAX - 512),
    "fetch.max.wait.ms": _ms("fetch.wait.max.ms", high=300_000),
    "fetch.min.bytes": _ms("fetch.min.bytes", low=1, high=100_000_000),
    "group.id": PropertyRule(ignored=_NO_GROUP),
    "group.instance.id": PropertyRule(ignored=_NO_GROUP),
    "group.protocol": PropertyRule(ignored=_NO_GROUP, harmless=("classic", "consumer")),
    "group.remote.assignor": PropertyRule(ignored=_NO_GROUP),
    "heartbeat.interval.ms": PropertyRule(ignored=_NO_GROUP),
    "interceptor.classes": PropertyRule(refused=_NO_JAVA),
    "isolation.level": PropertyRule(
        ignored=_COMMITTED,
        harmless=("read_committed",),
        one_of=("read_committed", "read_uncommitted"),
    ),
    "key.deserializer": PropertyRule(ignored=_BYTES, harmless=("bytearraydeserializer",)),
    "max.partition.fetch.bytes": _ms("max.partition.fetch.bytes", low=1, high=1_000_000_000),
    "max.poll.interval.ms": PropertyRule(ignored=_NO_GROUP),
    "max.poll.records": PropertyRule(ignored=_NO_COUNTERPART),
    "partition.assignment.strategy": PropertyRule(ignored=_NO_GROUP),
    "session.timeout.ms": PropertyRule(ignored=_NO_GROUP),
    "share.acknowledgement.mode": PropertyRule(ignored=_NO_GROUP),
    "share.acquire.mode": PropertyRule(ignored=_NO_GROUP),
    "value.deserializer": PropertyRule(ignored=_BYTES, harmless=("bytearraydeserializer",)),
}

_PRODUCER: dict[str, PropertyRule] = {
    "acks": PropertyRule(
        ignored=_ACKNOWLEDGED, harmless=("all", "-1"), one_of=("all", "-1", "0", "1")
    ),
    "batch.size": PropertyRule(ignored=_BATCHES),
    "buffer.memory": PropertyRule("queue.buffering.max.kbytes", bounds=(1, _INT_MAX), divide=1024),
    "compression.gzip.level": PropertyRule(ignored=_NO_COUNTERPART),
    "compression.lz4.level": PropertyRule(ignored=_NO_COUNTERPART),
    "compression.type": PropertyRule(
        "compression.type", one_of=("none", "gzip", "snappy", "lz4", "zstd")
    ),
    "compression.zstd.level": PropertyRule(ignored=_NO_COUNTERPART),
    "delivery.timeout.ms": _ms("delivery.timeout.ms"),
    "enable.idempotence": PropertyRule(
        ignored=_IDEMPOTENT, harmless=("true",), one_of=("true", "false")
    ),
    "interceptor.classes": PropertyRule(refused=_NO_JAVA),
    "key.serializer": PropertyRule(ignored=_BYTES, harmless=("bytearrayserializer",)),
    "linger.ms": PropertyRule(ignored=_BATCHES),
    "max.block.ms": PropertyRule(ignored=_NO_COUNTERPART),
    "max.in.flight.requests.per.connection": PropertyRule(
        ignored="at most five batches of a partition are in flight"
    ),
    "max.request.size": _ms("message.max.bytes", low=1000, high=1_000_000_000),
    "metadata.max.idle.ms": PropertyRule(ignored=_NO_COUNTERPART),
    "partitioner.adaptive.partitioning.enable": PropertyRule(ignored=_OTHERWISE),
    "partitioner.availability.timeout.ms": PropertyRule(ignored=_OTHERWISE),
    "partitioner.class": PropertyRule(
        ignored="replication.sink.partition sets this", harmless=("",)
    ),
    "partitioner.ignore.keys": PropertyRule(ignored="replication.sink.partition sets this"),
    "retries": PropertyRule(ignored="a write is repeated until delivery.timeout.ms"),
    "transaction.timeout.ms": _ms("transaction.timeout.ms", low=1000),
    "transaction.two.phase.commit.enable": PropertyRule(
        ignored=_NO_COUNTERPART, harmless=("false",)
    ),
    "transactional.id": PropertyRule(ignored="k2ktui names its transactions after the pipeline"),
    "value.serializer": PropertyRule(ignored=_BYTES, harmless=("bytearrayserializer",)),
}

_ADMIN: dict[str, PropertyRule] = {
    "retries": PropertyRule(ignored=_NO_COUNTERPART),
    "bootstrap.controllers": PropertyRule(
        refused="use bootstrap.servers, with the brokers' addresses"
    ),
}

_SECURITY_NAMES = """
sasl.jaas.config sasl.kerberos.service.name sasl.mechanism
sasl.oauthbearer.client.credentials.client.id
sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.scope
sasl.oauthbearer.token.endpoint.url security.protocol ssl.endpoint.identification.algorithm
ssl.key.password ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location
ssl.keystore.password ssl.keystore.type ssl.truststore.certificates ssl.truststore.location
ssl.truststore.password ssl.truststore.type
"""

_ASSERTION = "only client credentials are supported, not assertions (JWT bearer)"
_AWS = "software.amazon.msk.auth.iam."
_LOGIN_HANDLERS = (".oauthbearerlogincallbackhandler", f"{_AWS}iamoauthbearerlogincallbackhandler")

_SECURITY: dict[str, PropertyRule] = {
    **dict.fromkeys(_SECURITY_NAMES.split(), PropertyRule(security=True)),
    "sasl.client.callback.handler.class": PropertyRule(
        refused=_NO_JAVA, harmless=(f"{_AWS}iamclientcallbackhandler",)
    ),
    "sasl.login.callback.handler.class": PropertyRule(refused=_NO_JAVA, harmless=_LOGIN_HANDLERS),
    "sasl.login.class": PropertyRule(refused=_NO_JAVA),
    "sasl.oauthbearer.jwt.retriever.class": PropertyRule(
        refused=_NO_JAVA, harmless=("defaultjwtretriever", "clientcredentialsjwtretriever")
    ),
    "sasl.oauthbearer.jwt.validator.class": PropertyRule(ignored=_BROKER_SIDE),
    "sasl.oauthbearer.header.urlencode": PropertyRule(ignored=_NO_COUNTERPART, harmless=("false",)),
    "security.providers": PropertyRule(ignored=_OPENSSL),
    "ssl.cipher.suites": PropertyRule(
        ignored=_OPENSSL + "; Java's cipher names differ from OpenSSL's"
    ),
    "ssl.enabled.protocols": PropertyRule(ignored=_OPENSSL + " (TLS 1.2 and 1.3)"),
    "ssl.engine.factory.class": PropertyRule(
        refused=_NO_JAVA, harmless=("defaultsslenginefactory",)
    ),
    "ssl.keymanager.algorithm": PropertyRule(ignored=_OPENSSL),
    "ssl.protocol": PropertyRule(ignored=_OPENSSL + " (TLS 1.2 and 1.3)"),
    "ssl.provider": PropertyRule(ignored=_OPENSSL),
    "ssl.secure.random.implementation": PropertyRule(ignored=_OPENSSL),
    "ssl.trustmanager.algorithm": PropertyRule(ignored=_OPENSSL),
    **dict.fromkeys(
        (
            "sasl.kerberos.kinit.cmd",
            "sasl.kerberos.min.time.before.relogin",
            "sasl.kerberos.ticket.renew.jitter",
            "sasl.kerberos.ticket.renew.window.factor",
        ),
        PropertyRule(ignored=_KERBEROS),
    ),
    **dict.fromkeys(
        (
            "sasl.login.connect.timeout.ms",
            "sasl.login.read.timeout.ms",
            "sasl.login.refresh.buffer.seconds",
            "sasl.login.refresh.min.period.seconds",
            "sasl.login.refresh.window.factor",
            "sasl.login.refresh.window.jitter",
            "sasl.login.retry.backoff.max.ms",
            "sasl.login.retry.backoff.ms",
        ),
        PropertyRule(ignored=_NO_COUNTERPART),
    ),
    **dict.fromkeys(
        (
            "sasl.oauthbearer.clock.skew.seconds",
            "sasl.oauthbearer.expected.audience",
            "sasl.oauthbearer.expected.issuer",
            "sasl.oauthbearer.jwks.endpoint.refresh.ms",
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
            "sasl.oauthbearer.jwks.endpoint.url",
            "sasl.oauthbearer.scope.claim.name",
            "sasl.oauthbearer.sub.claim.name",
        ),
        PropertyRule(ignored=_BROKER_SIDE),
    ),
    **dict.fromkeys(
        (
            "sasl.oauthbearer.assertion.algorithm",
            "sasl.oauthbearer.assertion.claim.aud",
            "sasl.oauthbearer.assertion.claim.exp.seconds",
            "sasl.oauthbearer.assertion.claim.iss",
            "sasl.oauthbearer.assertion.claim.jti.include",
            "sasl.oauthbearer.assertion.claim.nbf.seconds",
            "sasl.oauthbearer.assertion.claim.sub",
            "sasl.oauthbearer.assertion.file",
            "sasl.oauthbearer.assertion.private.key.file",
            "sasl.oauthbearer.assertion.private.key.passphrase",
            "sasl.oauthbearer.assertion.template.file",
        ),
        PropertyRule(refused=_ASSERTION),
    ),
}

_SHARED = {**_ANY, **_SECURITY}

#: Rules of the properties that a Java client of each role accepts.
RULES: Final[dict[str, dict[str, PropertyRule]]] = {
    "consumer": {**_SHARED, **_CONSUMER},
    "producer": {**_SHARED, **_PRODUCER},
    "admin": {**_SHARED, **_ADMIN},
}

#: Rules of the properties of all roles.
ALL: Final[dict[str, PropertyRule]] = {**_ADMIN, **_PRODUCER, **_CONSUMER, **_SHARED}

#: librdkafka's names that users often write instead of Java's, for hints.
JAVA_FOR_LIBRDKAFKA: Final[dict[str, str]] = {
    "sasl.username": "sasl.jaas.config",
    "sasl.password": "sasl.jaas.config",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
    "metadata.broker.list": "bootstrap.servers",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.location": "ssl.keystore.location",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.location": "ssl.keystore.location",
    "ssl.key.pem": "ssl.keystore.key",
    "message.max.bytes": "max.request.size",
    "socket.timeout.ms": "request.timeout.ms",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "queue.buffering.max.ms": "linger.ms",
    "compression.codec": "compression.type",
}
