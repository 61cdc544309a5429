"""Records of DNS that lead clients to a cluster: how they must stand, and what moves them; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from k2ktui.text import list_names, safe_text

_NAMED = 5


@dataclass(frozen=True, slots=True)
class DnsRecord:
    """All records of one type that a name has; names and values are in lower case, without a last
    dot.

    Attributes:
        name: the whole name.
        type: ``A``, ``AAAA`` or ``CNAME``.
        source: the values that lead to the source, sorted.
        target: the values that lead to the target, sorted; none of them is one of the source.
    """

    name: str
    type: str
    source: tuple[str, ...]
    target: tuple[str, ...]

    def write(self, value: str) -> str:
        """Return a value as zone files have it: a name ends with a dot."""
        return f"{value}." if self.type == "CNAME" else value

    def __str__(self) -> str:
        return f"{self.name} {self.type}"


@dataclass(frozen=True, slots=True)
class Standing:
    """How a record stands at its server.

    Attributes:
        values: its values, sorted, written as those of a :class:`DnsRecord`; empty without one.
        ttl_s: how long caches may have them, in seconds.
    """

    values: tuple[str, ...]
    ttl_s: int = 0


@dataclass(frozen=True, slots=True)
class DnsMove:
    """What one signed UPDATE (RFC 2136) moves from the source to the target.

    Attributes:
        host, port: the zone's primary server, which is asked over TCP.
        zone: the zone.
        records: what moves.
        ttl_s: the records' TTL once they have moved, in seconds.
        key_file: path of the file with the TSIG key.
    """

    host: str
    port: int
    zone: str
    records: tuple[DnsRecord, ...]
    ttl_s: int
    key_file: str

    @property
    def server(self) -> str:
        """The server in a sentence."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"the DNS server {host}:{self.port}"

    @property
    def script(self) -> tuple[str, ...]:
        """The same as lines for ``nsupdate``, for who does it by hand."""
        lines = [f"server {self.host} {self.port}", f"zone {self.zone}."]
        for record in self.records:
            at = f"{record.name}. {record.type}"
            lines += [f"prereq yxrrset {at} {record.write(value)}" for value in record.source]
        for record in self.records:
            lines.append(f"update delete {record.name}. {record.type}")
            lines += [
                f"update add {record.name}. {self.ttl_s} {record.type} {record.write(value)}"
                for value in record.target
            ]
        return (*lines, "send")


def explain_not_source(move: DnsMove, stand: Mapping[DnsRecord, Standing]) -> str:
    """Return which records do not lead to the source as the file says; "" if all do."""
    if has_moved(move, stand):
        return f"DNS leads clients to the target already: {list_names(move.records, _NAMED)}"
    other = [
        f"{record} is {_show(record, stand[record].values)}; the file has "
        f"{_show(record, record.source)}"
        for record in move.records
        if stand[record].values != record.source
    ]
    return "; ".join(other)


def has_moved(move: DnsMove, stand: Mapping[DnsRecord, Standing]) -> bool:
    """Return whether all records lead to the target, whatever their TTL."""
    return all(stand[record].values == record.target for record in move.records)


def longest_ttl(stand: Mapping[DnsRecord, Standing]) -> int:
    """Return how long caches may have one of the records, in seconds."""
    return max((standing.ttl_s for standing in stand.values()), default=0)


def show_records(move: DnsMove) -> str:
    """Return the records that lead to the target, in one line."""
    return "; ".join(f"{record} {_show(record, record.target)}" for record in move.records)


def _show(record: DnsRecord, values: tuple[str, ...]) -> str:
    return " and ".join(safe_text(record.write(value)) for value in values) or "not there"


def describe_move(move: DnsMove, ttl_s: int) -> str:
    """Return how records stand that have been proven to be movable, in one line."""
    now = "; ".join(f"{record} {_show(record, record.source)}" for record in move.records)
    return (
        f"At {move.server}: {now}, TTL {ttl_s:,} s; the key may move them. Caches may lead clients "
        "to the source for as long as this TTL: the redirect waits for it, then proves its effect."
    )


def explain_no_zone(move: DnsMove, code: str) -> str:
    """Return that the server does not answer for the zone, by its response code."""
    return (
        f"{move.server} is not authoritative for the zone {move.zone} (it answers {code}). Name "
        "the zone's primary server, the zone that has the records, and a key that may ask for them"
    )


def explain_answer(move: DnsMove, key: str, code: str) -> str:
    """Return what an answer to an UPDATE means, by its response code; "" for ``NOERROR``.

    Args:
        move: what was to be moved.
        key: name of the key that signed it.
        code: the response code, such as ``REFUSED`` (RFC 2136, section 2.2).
    """
    match code:
        case "NOERROR":
            return ""
        case "REFUSED":
            names = list_names(move.records, _NAMED)
            return (
                f"{move.server} refuses the update (REFUSED): the key {safe_text(key)} may not "
                f"change {names}. Allow it there, in BIND by update-policy"
            )
        case "NOTAUTH" | "NOTZONE":
            return explain_no_zone(move, code)
        case "NXRRSET" | "YXRRSET" | "NXDOMAIN" | "YXDOMAIN":
            return (
                f"another hand has changed a record of the zone {move.zone} ({code}), and nothing "
                "was overwritten"
            )
        case "NOTIMP":
            return f"{move.server} does not take updates (NOTIMP)"
    return f"{move.server} could not carry out the update ({safe_text(code)}): see its log"
