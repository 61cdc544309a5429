"""Chooses which client properties of a flow a pipeline file takes over.

Carried over are the connection properties of every client, and the other properties of the clients
that copy, as far as they have an effect here. What the pipeline file must have and cannot take as
it is, such as a secret, becomes an environment variable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from k2ktui.config.clusters import ClientFinding, ClusterConfig, KafkaClients
from k2ktui.config.templates import PROVIDERS_KEY
from k2ktui.kafka.properties.translation import findings
from k2ktui.mm2.flows.model import ROLES, FlowProperties, Side, is_client
from k2ktui.secret_values import is_secret_key
from k2ktui.text import safe_text

_VARIABLE = re.compile(r"\$\{[^}:]*:[^}]*\}")
# Without these the file would be another login than MirrorMaker 2's, or none.
_REQUIRED = re.compile(
    r"bootstrap\.servers|security\.protocol|sasl\.mechanism|sasl\.jaas\.config"
    r"|ssl\.(truststore|keystore)\..+|ssl\.key\.password"
)
# Without a value, it turns the check of host names off.
_HOST_CHECK = "ssl.endpoint.identification.algorithm"
_LOGIN = ("sasl.mechanism", "sasl.jaas.config")
_ELSEWHERE: Mapping[tuple[str, str], str] = {
    ("source", "producer"): "k2ktui writes nothing to the source",
    ("target", "consumer"): "target.kafka.consumer is its counterpart, for reading control topics",
}

Section = dict[str, str]


@dataclass
class ChosenProperties:
    """The client properties of one cluster, by role.

    Attributes:
        written: as the file has them, with templates.
        literal: values that can be validated before the variables are known.
    """

    written: dict[str, Section] = field(default_factory=dict)
    literal: dict[str, Section] = field(default_factory=dict)


def choose_properties(flow: FlowProperties, side: Side, notes: list[str]) -> ChosenProperties:
    """Return the client properties that the file takes over; everything else is noted."""
    return _Chooser(flow, side, notes).choose()


class _Chooser:
    def __init__(self, flow: FlowProperties, side: Side, notes: list[str]) -> None:
        self._flow, self._side, self._notes = flow, side, notes
        self._alias = flow.source if side == "source" else flow.target
        self._sections: dict[str, Section] = {}
        self._variables: dict[tuple[str, str], str] = {}

    def choose(self) -> ChosenProperties:
        for role in ("common", *ROLES):
            self._select(role)
        done: set[tuple[str, str]] = set()
        while new := [f for f in self._findings() if (f.section, f.key) not in done]:
            for finding in new:
                done.add((finding.section, finding.key))
                self._treat(finding)
        if ("common", "sasl.mechanism") in self._variables:
            for key in _LOGIN:
                if not any(key in section for section in self._sections.values()):
                    self._ask_for("common", key, "is missing")
        chosen = ChosenProperties()
        for role, section in self._sections.items():
            if section:
                chosen.literal[role] = dict(section)
                chosen.written[role] = {
                    key: self._variables.get((role, key), value.replace("${", "$${"))
                    for key, value in sorted(section.items())
                }
        return chosen

    def _select(self, role: str) -> None:
        """Select the properties of a role, and find secrets and variables among them."""
        given = self._flow.clients[self._side].get(role, {})
        section = self._sections.setdefault(role, {})
        elsewhere = _ELSEWHERE.get((self._side, role), "")
        for key, value in sorted(given.items()):
            if (self._side, role) == ("source", "producer") or (elsewhere and not is_client(key)):
                self._leave_out(role, key, elsewhere)
                continue
            if key.startswith(PROVIDERS_KEY):
                self._leave_out(role, key, "variables become environment variables")
                continue
            if not value.strip() and key != _HOST_CHECK:
                self._leave_out(role, key, "it has no value")
                continue
            section[key] = value
            if variables := list(dict.fromkeys(_VARIABLE.findall(value))):
                self._ask_for(role, key, f"contained {safe_text(', '.join(variables))}")
            elif is_secret_key(key):
                self._ask_for(role, key, "contained a secret")

    def _findings(self) -> Iterable[ClientFinding]:
        """Return what the client libraries say about the values that are known."""
        known = {
            role: {key: value for key, value in section.items() if not _VARIABLE.search(value)}
            for role, section in self._sections.items()
        }
        known["common"].setdefault("bootstrap.servers", "host:9092")
        cluster = ClusterConfig(kafka=KafkaClients.model_validate(known))
        return findings(cluster)

    def _treat(self, finding: ClientFinding) -> None:
        """Leave out or replace a property that has no effect or is refused."""
        role, key = finding.section, finding.key
        section = self._sections.setdefault(role, {})
        unknown = key not in section or _VARIABLE.search(section[key])
        if not finding.refused:
            self._drop(role, key, finding.message.removeprefix("has no effect: "))
        elif unknown and any(_VARIABLE.search(value) for value in self._values()):
            return  # a variable may contain what is missing
        elif _REQUIRED.fullmatch(key):
            self._ask_for(role, key, f"cannot be used ({finding.message})")
        elif key in section:
            self._drop(role, key, finding.message)

    def _values(self) -> Iterable[str]:
        return (value for section in self._sections.values() for value in section.values())

    def _drop(self, role: str, key: str, why: str) -> None:
        self._sections[role].pop(key, None)
        self._variables.pop((role, key), None)
        self._leave_out(role, key, why)

    def _leave_out(self, role: str, key: str, why: str) -> None:
        part = "" if role == "common" else f"{role}."
        name = safe_text(f"{self._alias}.{part}{key}")
        self._notes.append(f"{name}: not carried over; {why}")

    def _ask_for(self, role: str, key: str, why: str) -> None:
        """Read a property from an environment variable instead."""
        part = "" if role == "common" else f"{role}_"
        variable = re.sub(r"[^A-Z0-9]", "_", f"{self._side}_{part}{key}".upper())
        self._sections[role].setdefault(key, "")
        self._variables[role, key] = f"${{env:string:{variable}}}"
        self._notes.append(
            f"{self._side}.kafka.{role}.{safe_text(key)} {why}; it is now read from the "
            f"environment variable {variable}"
        )
