"""Kerberos (GSSAPI) logins, with the tickets that the platform's Kerberos library finds.

Both client libraries must be able to: kafka-python needs the package gssapi, and confluent-kafka
needs a librdkafka built with Cyrus SASL, which the one of its wheels is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

from k2ktui.errors import install_command, pip_command
from k2ktui.kafka.unusable_property import UnusableProperty
from k2ktui.text import safe_text

KERBEROS = "GSSAPI"
_JAAS = "sasl.jaas.config"
_MECHANISM = "sasl.mechanism"
_SERVICE = "sasl.kerberos.service.name"
# Options of Java's Krb5LoginModule that ask for what happens here anyway.
_HARMLESS = {"useTicketCache": "true", "doNotPrompt": "true", "useKeyTab": "false"}


@dataclass(frozen=True)
class KerberosLogin:
    """The service of the brokers' principals, ``kafka`` in ``kafka/broker.example.com@REALM``."""

    service: str


def read_kerberos(properties: Mapping[str, str], options: Mapping[str, str]) -> KerberosLogin:
    """Return a Kerberos login.

    Args:
        properties: Java client properties.
        options: options of the login line; empty without one.

    Raises:
        UnusableProperty: a client library cannot log in with Kerberos, an option has no
            counterpart, or the service is missing.
    """
    if find_spec("gssapi") is None:
        reason = (
            "Kerberos needs the Python package gssapi; install it, in k2ktui's checkout, with: "
            f"{install_command('kerberos')}"
        )
        raise UnusableProperty(_MECHANISM, reason)
    if not librdkafka_has_kerberos():
        raise UnusableProperty(
            _MECHANISM,
            "this confluent-kafka has no Kerberos; build it against a librdkafka with Cyrus SASL: "
            f"{pip_command('--no-binary confluent-kafka confluent-kafka')}",
        )
    unknown = sorted(
        name
        for name, text in options.items()
        if name != "serviceName" and _HARMLESS.get(name) != text.lower()
    )
    if unknown:
        names = ", ".join(safe_text(name, 40) for name in unknown)
        raise UnusableProperty(
            _JAAS,
            f"{names} not supported: tickets are those of kinit, or of the keytab that the "
            "environment variable KRB5_CLIENT_KTNAME names",
        )
    service = properties.get(_SERVICE, "").strip() or options.get("serviceName", "").strip()
    if not service:
        raise UnusableProperty(_SERVICE, f"missing; {KERBEROS} needs it, usually kafka")
    return KerberosLogin(service)


def kerberos_for_librdkafka(login: KerberosLogin) -> dict[str, Any]:
    """Return the properties of a login; librdkafka itself starts no kinit."""
    return {_SERVICE: login.service, "sasl.kerberos.min.time.before.relogin": "0"}


@cache
def librdkafka_has_kerberos() -> bool:
    """Return whether confluent-kafka's librdkafka was built with Kerberos."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    probe = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": KERBEROS, "log_level": 0}
    try:
        AdminClient({**probe, **kerberos_for_librdkafka(KerberosLogin("kafka"))})
    except KafkaException:
        return False
    return True
