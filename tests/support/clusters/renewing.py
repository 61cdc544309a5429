"""A cluster whose clients' certificates and passwords are renewed while they are connected."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import START_S
from tests.support.clusters.secure import create_scram_users
from tests.support.clusters.tls import Holder, make_leaf, make_root

USER = "ann"
_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_REFUSED = re.compile(r"Failed authentication with ")


@dataclass
class RenewingCluster:
    """A node with the listeners MUTUAL (a client certificate) and LOGIN (SCRAM over TLS).

    Args:
        directory: for its data, its certificates, and what its clients have of them.

    Attributes:
        old, new: authorities of client certificates; brokers trust both, and after
            :meth:`trust_only_new` the second.
    """

    directory: Path
    old: Holder = field(default_factory=lambda: make_root("old"))
    new: Holder = field(default_factory=lambda: make_root("new"))
    node: KafkaNode = field(init=False)

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        root = make_root("brokers")
        self._root = root.certificates_pem
        store = make_leaf(root, "broker", "localhost", "127.0.0.1").pem_file(
            self.directory / "broker.pem"
        )
        self._trust = self.directory / "clients.pem"
        self._trust.write_text(self.old.certificates_pem + self.new.certificates_pem)
        properties = {
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.mutual.ssl.truststore.type": "PEM",
            "listener.name.mutual.ssl.truststore.location": str(self._trust),
            "listener.name.login.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.login.scram-sha-512.sasl.jaas.config": f"{_MODULE} required;",
        }
        for name in ("mutual", "login"):
            properties[f"listener.name.{name}.ssl.keystore.type"] = "PEM"
            properties[f"listener.name.{name}.ssl.keystore.location"] = str(store)
        listeners = {"MUTUAL": "SSL", "LOGIN": "SASL_SSL"}
        self.node = KafkaNode("renewing", self.directory / "node", properties, listeners=listeners)
        self.node.start(START_S)

    def close(self) -> None:
        """Stop it."""
        self.node.close()

    def restart(self) -> None:
        """Close all connections."""
        self.node.stop()
        self.node.start(START_S)

    def trust_only_new(self) -> None:
        """Restart with trust in certificates of the new authority alone."""
        self._trust.write_text(self.new.certificates_pem)
        self.restart()

    def trust_both(self) -> None:
        """Trust both authorities, after a restart if it was only one."""
        both = self.old.certificates_pem + self.new.certificates_pem
        if self._trust.read_text() != both:
            self._trust.write_text(both)
            self.restart()

    def issue(self, authority: Holder, path: Path) -> Path:
        """Write a client's key with its certificate, as PEM."""
        return make_leaf(authority, "client").pem_file(path)

    def set_password(self, password: str) -> None:
        """Set the password on the brokers."""
        create_scram_users(self.node, {USER: password})

    def mutual(self, store: Path) -> Mapping[str, str]:
        """Return the properties of clients with a certificate."""
        return {
            "bootstrap.servers": self.node.address("MUTUAL"),
            "security.protocol": "SSL",
            "ssl.truststore.certificates": self._root,
            "ssl.keystore.location": str(store),
        }

    def login(self, password: str) -> Mapping[str, str]:
        """Return the properties of clients with a password, such as ``${file:password}``."""
        return {
            "bootstrap.servers": self.node.address("LOGIN"),
            "security.protocol": "SASL_SSL",
            "ssl.truststore.certificates": self._root,
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f'{_MODULE} required username="{USER}" password="{password}";',
        }

    def refused_logins(self) -> int:
        """Return how many logins the node has refused since it was first started."""
        return len(_REFUSED.findall(self.node.log_path.read_text(errors="replace")))
