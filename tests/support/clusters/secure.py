"""A cluster with TLS, SASL and an authorizer, for tests of least rights."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from k2ktui.kafka.admin.acls import EVERY_RULE
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import START_S, TIMEOUT, admin, eventually
from tests.support.clusters.tls import Holder, make_leaf, make_root

LISTENER = "SECURE"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
# Each change of passwords has its own, so that brokers tell which one they know; 4096 at least.
_iterations = itertools.count(4096)


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority made for one test; ``ca_path`` is its certificate, as PEM."""

    root: Holder
    ca_path: Path


def make_authority(directory: Path) -> Authority:
    """Make an authority whose certificate goes to ``directory``."""
    directory.mkdir(parents=True, exist_ok=True)
    authority = Authority(make_root("test-ca"), directory / "ca.pem")
    authority.ca_path.write_text(authority.root.certificates_pem)
    return authority


@dataclass(frozen=True, slots=True)
class SecureNode:
    """A node with an authorizer: its PLAINTEXT listener is the super user's, the other is not."""

    node: KafkaNode
    authority: Authority
    passwords: dict[str, str]

    @property
    def bootstrap(self) -> str:
        """``host:port`` of the SASL_SSL listener."""
        return self.node.address(LISTENER)

    def client(self, user: str, mechanism: str = "SCRAM-SHA-512") -> dict[str, Any]:
        """Return librdkafka properties for ``user`` on the SASL_SSL listener."""
        login = rdkafka_login(self.authority, user, self.passwords[user], mechanism)
        return {"bootstrap.servers": self.bootstrap, **login, "log_level": 0}

    def java(self, user: str, password: str | None = None) -> dict[str, str]:
        """Return client properties with Java's names, as in a pipeline file."""
        login = java_login(self.authority, user, password or self.passwords[user])
        return {"bootstrap.servers": self.bootstrap, **login}

    def allow(
        self,
        user: str,
        operations: Iterable[AclOperation],
        name: str,
        kind: ResourceType = ResourceType.TOPIC,
        pattern: ResourcePatternType = ResourcePatternType.LITERAL,
    ) -> None:
        """Grant ``operations`` on a resource to ``user``."""
        self._create(
            [
                AclBinding(
                    kind, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW
                )
                for operation in operations
            ]
        )

    def allow_all(self, *users: str) -> None:
        """Grant users everything that a pipeline and its checks may ask for."""
        everything = [AclOperation.ALL]
        for user in users:
            for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID):
                self.allow(user, everything, "*", kind)
            self.allow(user, everything, "kafka-cluster", ResourceType.BROKER)

    @contextlib.contextmanager
    def denied(self, user: str, operation: AclOperation, topic: str) -> Iterator[None]:
        """Deny ``operation`` on a topic to ``user`` meanwhile, whatever was granted."""
        rule = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{user}", "*")
        denial = AclBinding(*rule, operation, AclPermissionType.DENY)
        self._create([denial])
        try:
            yield
        finally:
            only = AclBindingFilter(*rule, operation, AclPermissionType.DENY)
            with_admin = admin(self.node)
            for future in with_admin.delete_acls([only]).values():
                future.result(TIMEOUT)
            eventually(lambda: denial not in self._rules(), "the broker no longer denies it")

    def _create(self, bindings: Collection[AclBinding]) -> None:
        """Create rules, and wait until the broker decides by them: the controller answers first."""
        with_admin = admin(self.node)
        for future in with_admin.create_acls(list(bindings)).values():
            future.result(TIMEOUT)
        eventually(lambda: self._rules() >= set(bindings), "the broker has the rules")

    def _rules(self) -> set[AclBinding]:
        """Return the rules by which the broker decides."""
        with_admin = admin(self.node)
        return set(with_admin.describe_acls(EVERY_RULE).result(TIMEOUT))


def start_secure_node(
    directory: Path, passwords: dict[str, str], more: Mapping[str, str] = {}
) -> SecureNode:
    """Start a node with TLS, SASL (PLAIN and SCRAM) and Kafka's own authorizer.

    Args:
        directory: for its data and certificates.
        passwords: user to password; the users have no rights until :meth:`SecureNode.allow`.
        more: further broker properties.
    """
    authority, login = make_login(LISTENER, directory / "tls", passwords)
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        **login,
        **more,
    }
    node = KafkaNode("secure", directory / "node", properties, listeners={LISTENER: "SASL_SSL"})
    node.start(START_S)
    create_scram_users(node, passwords)
    return SecureNode(node, authority, passwords)


def make_login(
    listener: str, directory: Path, passwords: Mapping[str, str]
) -> tuple[Authority, dict[str, str]]:
    """Return an authority, and what a broker needs for TLS and SASL (PLAIN and SCRAM).

    Args:
        listener: name of the SASL_SSL listener.
        directory: for the certificates.
        passwords: user to password; for SCRAM, :func:`create_scram_users` makes the users.
    """
    authority = make_authority(directory)
    broker = make_leaf(authority.root, "broker", "localhost", "127.0.0.1")
    key_store = broker.pem_file(directory / "broker.pem")
    prefix = f"listener.name.{listener.lower()}"
    module = "org.apache.kafka.common.security"
    users = " ".join(f'user_{user}="{password}"' for user, password in passwords.items())
    properties = {
        f"{prefix}.ssl.keystore.type": "PEM",
        f"{prefix}.ssl.keystore.location": str(key_store),
        f"{prefix}.sasl.enabled.mechanisms": ",".join(MECHANISMS),
        f"{prefix}.plain.sasl.jaas.config": f"{module}.plain.PlainLoginModule required {users};",
    }
    for mechanism in MECHANISMS[1:]:
        key = f"{prefix}.{mechanism.lower()}.sasl.jaas.config"
        properties[key] = f"{module}.scram.ScramLoginModule required;"
    return authority, properties


def java_login(authority: Authority, user: str, password: str) -> dict[str, str]:
    """Return client properties with Java's names: how a user logs in to a SASL_SSL listener."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{module} required username="{user}" password="{password}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.ca_path),
    }


def rdkafka_login(
    authority: Authority, user: str, password: str, mechanism: str = "SCRAM-SHA-512"
) -> dict[str, str]:
    """Return the same with librdkafka's names."""
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
        "ssl.ca.location": str(authority.ca_path),
    }


def create_scram_users(node: KafkaNode, passwords: Mapping[str, str]) -> None:
    """Create SCRAM users, or give them these passwords, and wait until the broker has followed.

    A broker describes a change before it logs users in by it, but only when it has done with the
    change before.
    """
    for _ in range(2):
        _upsert_scram_users(node, passwords)


def _upsert_scram_users(node: KafkaNode, passwords: Mapping[str, str]) -> None:
    with_admin, iterations = admin(node), next(_iterations)
    # One mechanism a request: a broker refuses a user who appears twice.
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        info = ScramCredentialInfo(mechanism, iterations)
        changes = [
            UserScramCredentialUpsertion(user, info, password.encode())
            for user, password in passwords.items()
        ]
        for future in with_admin.alter_user_scram_credentials(changes).values():
            future.result(TIMEOUT)

    def is_known() -> bool:
        described = with_admin.describe_user_scram_credentials(list(passwords))
        try:
            users = [future.result(TIMEOUT) for future in described.values()]
        except KafkaException:  # a user whom the broker does not know yet
            return False
        infos = [info for user in users for info in user.scram_credential_infos]
        return [info.iterations for info in infos] == [iterations] * 2 * len(passwords)

    eventually(is_known, "the broker knows the passwords")
