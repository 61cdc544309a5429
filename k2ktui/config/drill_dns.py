"""The section ``drill.redirect.dns``: records that lead clients to a cluster."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from k2ktui.config.clusters import Section
from k2ktui.config.scalars import Duration, Name, whole_path
from k2ktui.engine.drill.dns import DnsMove, DnsRecord

_PORT, _LARGEST_PORT = 53, 65535
# An update with as many fits into one message of DNS, 64 KiB.
_MOST_RECORDS, _MOST_VALUES, _LONGEST_NAME = 20, 20, 253
_LARGEST_TTL_S = 24 * 3600
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?")
_SERVER = re.compile(rf"(?:\[([0-9A-Fa-f:]+)\]|({_NAME.pattern}))(?::([0-9]{{1,5}}))?")


def _name(value: str) -> str:
    """Return a name in lower case, without a last dot."""
    if not _NAME.fullmatch(value) or len(value) > _LONGEST_NAME:
        raise ValueError("a whole name, such as kafka.example.com, without a wildcard")
    return value.lower().removesuffix(".")


def _split_server(value: str) -> tuple[str, int]:
    match = _SERVER.fullmatch(value)
    if match is None or not 0 < (port := int(match[3] or _PORT)) <= _LARGEST_PORT:
        raise ValueError("HOST or HOST:PORT, an IPv6 address in brackets")
    return match[1] or match[2], port


def _server(value: str) -> str:
    _split_server(value)
    return value


def _whole_seconds(value: float) -> float:
    if value != int(value):
        raise ValueError("whole seconds")
    return value


DnsName = Annotated[Name, AfterValidator(_name)]
Values = Annotated[tuple[Name, ...], Field(min_length=1, max_length=_MOST_VALUES)]


class DrillDnsRecord(Section):
    """All records of one type that a name has."""

    name: DnsName = Field(description="The whole name, in the zone")
    type: Literal["A", "AAAA", "CNAME"] = Field(description="Type of the records")
    source: Values = Field(
        description="All their values while they lead to the source; the move is refused if they "
        "stand otherwise"
    )
    target: Values = Field(description="The values that lead to the target")

    @model_validator(mode="after")
    def _has_values(self) -> Self:
        record = self.record
        if set(record.source) & set(record.target):
            raise ValueError("no value in both source and target")
        if self.type == "CNAME" and len(record.source) + len(record.target) > 2:
            raise ValueError("one value each in source and target: a name has one CNAME")
        return self

    @property
    def record(self) -> DnsRecord:
        """Return it without the file's types."""
        source, target = (
            tuple(sorted({_value(self.type, value) for value in values}))
            for values in (self.source, self.target)
        )
        return DnsRecord(str(self.name), self.type, source, target)


def _value(kind: str, value: str) -> str:
    if kind == "CNAME":
        return _name(value)
    try:
        return str(IPv4Address(value) if kind == "A" else IPv6Address(value))
    except AddressValueError as error:
        version = "IPv4" if kind == "A" else "IPv6"
        raise ValueError(f"{version} addresses in records of type {kind}") from error


class DrillDns(Section):
    """Records that one signed UPDATE (RFC 2136) moves to the target."""

    server: Annotated[Name, AfterValidator(_server), Field(max_length=300)] = Field(
        description="The zone's primary server, `HOST` or `HOST:PORT` (53), asked over TCP"
    )
    zone: DnsName = Field(description="The zone")
    records: Annotated[
        tuple[DrillDnsRecord, ...], Field(min_length=1, max_length=_MOST_RECORDS)
    ] = Field(description="The records that move, all at once")
    ttl_s: Annotated[Duration, AfterValidator(_whole_seconds), Field(ge=1, le=_LARGEST_TTL_S)] = (
        Field(default=30.0, description="Their TTL once they have moved")
    )
    key_file: Annotated[Name, AfterValidator(whole_path), Field(max_length=4096)] = Field(
        description="Path of the file with the TSIG key, as `tsig-keygen` prints it (mode 600)"
    )

    @model_validator(mode="after")
    def _is_one_zone(self) -> Self:
        records = [part.record for part in self.records]
        for record in records:
            is_top = record.name == self.zone
            if not is_top and not record.name.endswith(f".{self.zone}"):
                raise ValueError("records of names in the zone")
            kinds = [other.type for other in records if other.name == record.name]
            if len(set(kinds)) < len(kinds):
                raise ValueError("one record of a name and type, with all its values")
            if "CNAME" in kinds and (is_top or len(kinds) > 1):
                raise ValueError("no CNAME of the zone, or of a name with other records")
        return self

    @property
    def move(self) -> DnsMove:
        """Return it without the file's types."""
        host, port = _split_server(self.server)
        records = tuple(part.record for part in self.records)
        return DnsMove(host, port, str(self.zone), records, int(self.ttl_s), str(self.key_file))
