"""Ask a DNS server for records, and move them by one signed UPDATE (RFC 2136, RFC 8945).

Each answer must be signed with the same key. An UPDATE has prerequisites: it does nothing unless
all records stand as the pipeline's file says.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib.util import find_spec
from time import monotonic, sleep
from typing import TYPE_CHECKING

from k2ktui.drill.hook_process import CommandEnd
from k2ktui.drill.tsig_key import TsigKey, UnusableKey, read_key
from k2ktui.engine.drill.dns import (
    DnsMove,
    DnsRecord,
    Standing,
    explain_answer,
    explain_no_zone,
    explain_not_source,
    has_moved,
    longest_ttl,
    show_records,
)
from k2ktui.errors import install_command
from k2ktui.text import safe_text

if TYPE_CHECKING:
    from dns.message import Message
    from dns.update import UpdateMessage

_NO_EFFECT = "the update has no effect: the records stand as before"
_CONNECT_S, _ANSWER_S, _READ_S, _POLL_S = 5.0, 10.0, 30.0, 0.5


class DnsError(Exception):
    """The server refused something, or did not answer as it must."""


class Unreachable(DnsError):
    """There is no connection to the server: nothing was sent."""


class NoAnswer(DnsError):
    """It is not known what the server did."""


def read_records(move: DnsMove) -> dict[DnsRecord, Standing]:
    """Ask the server how the records stand.

    Raises:
        DnsError: it cannot be reached, does not know the key, or has not the zone.
    """
    return _Server(move).read(monotonic() + _READ_S)


def prove_move(move: DnsMove) -> int:
    """Prove that the records could be moved now, and return the longest TTL that they have, in s.

    The proof is an UPDATE with the rights and prerequisites of the move that deletes a value which
    is not there: it changes nothing.

    Raises:
        DnsError: they could not be moved, with the reason.
    """
    server = _Server(move)
    stand = server.read(monotonic() + _READ_S)
    if problem := explain_not_source(move, stand):
        raise DnsError(problem)
    server.update(proves=True)
    return longest_ttl(stand)


def move_records(
    move: DnsMove,
    timeout_s: float,
    tick: Callable[[float], None],
    idle: Callable[[], AbstractContextManager[None]],
) -> CommandEnd:
    """Move the records by one UPDATE, and read them back.

    What counts is how they stand afterwards: another hand may have moved them, and an answer may be
    lost; they are then read until they have moved or the time is over. Arguments and result as for
    :func:`k2ktui.drill.hook_process.run_command`.
    """
    began = monotonic()
    tick(0.0)
    problem, is_known = "", True
    try:
        with idle():
            _Server(move).update()
    except NoAnswer as error:
        problem, is_known = str(error), False
    except DnsError as error:
        problem = str(error)
    while True:
        with idle():
            other = _explain_not_moved(move, began + timeout_s)
        if not other:
            break
        if (problem and is_known) or monotonic() - began > timeout_s:
            texts = (problem, "" if problem and other == _NO_EFFECT else other)
            said = ": ".join(dict.fromkeys(filter(None, texts)))
            return CommandEnd(1, monotonic() - began, said)
        tick(monotonic() - began)
        with idle():
            sleep(_POLL_S)
    read = f"read back: {show_records(move)}, TTL {move.ttl_s} s"
    return CommandEnd(0, monotonic() - began, read)


def _explain_not_moved(move: DnsMove, until: float) -> str:
    """Return how the records stand, or why it is not known; "" if they lead to the target.

    They are read until then by the monotonic clock, but for a while at least: how they stand after
    an update is worth it.
    """
    try:
        stand = _Server(move).read(max(until, monotonic() + _ANSWER_S))
    except DnsError as error:
        return str(error)
    return "" if has_moved(move, stand) else explain_not_source(move, stand) or _NO_EFFECT


class _Server:
    """The server, asked with the key of the file as it is now."""

    def __init__(self, move: DnsMove) -> None:
        if find_spec("dns") is None:
            raise DnsError(
                "drill.redirect.dns needs the Python package dnspython; install it, in k2ktui's "
                f"checkout, with: {install_command('dns')}"
            )
        try:
            self._key: TsigKey = read_key(move.key_file)
        except UnusableKey as error:
            raise DnsError(str(error)) from error
        self.move = move

    def read(self, until: float) -> dict[DnsRecord, Standing]:
        """Return how each record stands; errors as for :func:`read_records`.

        Args:
            until: no other record is asked for after this time of the monotonic clock.
        """
        stand = dict[DnsRecord, Standing]()
        for record in self.move.records:
            if stand and monotonic() > until:
                raise NoAnswer(
                    f"{self.move.server} is slow: {len(stand):,} of {len(self.move.records):,} "
                    "records were read in time"
                )
            stand[record] = self._read(record)
        return stand

    def _read(self, record: DnsRecord) -> Standing:
        import dns.flags
        import dns.message
        import dns.rcode
        import dns.rdatatype

        query = dns.message.make_query(f"{record.name}.", record.type)
        query.flags &= ~dns.flags.RD
        answer = self._ask(query)
        code = dns.rcode.to_text(answer.rcode())
        if code not in ("NOERROR", "NXDOMAIN") or not answer.flags & dns.flags.AA:
            raise DnsError(explain_no_zone(self.move, code))
        values, ttls = list[str](), list[int]()
        for entry in answer.answer:
            at = entry.name.to_text(omit_final_dot=True).lower()
            if at == record.name and entry.rdtype == dns.rdatatype.from_text(record.type):
                values += [rdata.to_text().lower().removesuffix(".") for rdata in entry]
                ttls.append(entry.ttl)
        return Standing(tuple(sorted(values)), max(ttls, default=0))

    def update(self, *, proves: bool = False) -> None:
        """Move the records if all stand as the file says of the source.

        Args:
            proves: whether it changes nothing, and only proves that it could.

        Raises:
            NoAnswer: it may have been carried out or not.
            DnsError: nothing was changed.
        """
        import dns.rcode
        import dns.update

        message = dns.update.UpdateMessage(f"{self.move.zone}.")
        for record in self.move.records:
            at, kind = f"{record.name}.", record.type
            for value in record.source:
                message.present(at, kind, record.write(value))
        for record in self.move.records:
            _add_change(message, record, self.move.ttl_s, proves=proves)
        code = dns.rcode.to_text(self._ask(message).rcode())
        if problem := explain_answer(self.move, self._key.name, code):
            raise DnsError(problem)

    def _ask(self, message: Message) -> Message:
        """Send a signed message, and return the signed answer."""
        import dns.exception
        import dns.query
        import dns.tsig

        key, at = self._key, self.move.server
        message.use_tsig(dns.tsig.Key(f"{key.name}.", key.secret, f"{key.algorithm}."))
        named = f"the key {safe_text(key.name)}"
        unsigned = f"an answer of {at} is not signed with {named}, or malformed: it does not count"
        try:
            message.to_wire()
        except dns.exception.TooBig as error:
            raise DnsError(
                "the update does not fit into one message of DNS (64 KiB), and was not sent: move "
                "fewer records"
            ) from error
        try:
            connection = socket.create_connection((self.move.host, self.move.port), _CONNECT_S)
        except OSError as error:
            reason = safe_text(error.strerror or error)
            raise Unreachable(f"{at} cannot be reached over TCP: {reason}") from error
        with connection:
            connection.setblocking(False)
            try:
                answer = dns.query.tcp(message, "", _ANSWER_S, sock=connection)
            except dns.exception.Timeout as error:
                raise NoAnswer(f"{at} has not answered within {_ANSWER_S:g} s") from error
            except (EOFError, OSError) as error:
                raise NoAnswer(f"{at} has closed the connection without an answer") from error
            except dns.tsig.PeerBadKey as error:
                raise DnsError(
                    f"{at} does not know {named} with {key.algorithm} (BADKEY)"
                ) from error
            except dns.tsig.PeerBadSignature as error:
                raise DnsError(f"{at} knows {named} with another secret (BADSIG)") from error
            except (dns.tsig.PeerBadTime, dns.tsig.BadTime) as error:
                raise DnsError(
                    f"the clocks of this host and of {at} differ by more than 300 s (BADTIME)"
                ) from error
            except dns.exception.DNSException as error:
                # Somebody else may have answered: what the server did is not known.
                raise NoAnswer(unsigned) from error
        if not answer.had_tsig:  # as dnspython requires itself since 2.9
            raise NoAnswer(unsigned)
        return answer


def _add_change(message: UpdateMessage, record: DnsRecord, ttl_s: int, *, proves: bool) -> None:
    at, kind = f"{record.name}.", record.type
    if proves:
        message.delete(at, kind, record.write(record.target[0]))
        return
    message.delete(at, kind)
    for value in record.target:
        message.add(at, ttl_s, kind, record.write(value))
