"""The logins and certificates of clusters, read again while a process runs.

Certificates are renewed every few hours to months, and passwords are rotated: both in the files
that a pipeline's file names, or in that file. Everything that connects asks here for the newest
values that can be used. A file may be half written, or a key be there before its certificate: what
cannot be used is not taken, and tried again.

Only logins and stores are renewed. Other changes of the files are noted, and wait for the next
start.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock, RLock
from time import monotonic
from typing import Any

from k2ktui.config.clusters import ClusterConfig, Reading, Role
from k2ktui.errors import ConfigError
from k2ktui.kafka.auth.jaas import parse_jaas
from k2ktui.kafka.auth.security import Security, for_wire, resolve
from k2ktui.kafka.auth.stores import read_identity, read_trust
from k2ktui.kafka.unusable_property import UnusableProperty
from k2ktui.secret_values import remember_secrets
from k2ktui.text import safe_text

log = logging.getLogger(__name__)

ROLES: tuple[Role, ...] = ("consumer", "producer", "admin")
_LOOK_S = 1.0
_MOST = 1000
_LOCATION = "ssl.{}.location"
_STORES = tuple(_LOCATION.format(store) for store in ("keystore", "truststore"))
_JAAS, _REGISTRY = "sasl.jaas.config", "schema.registry."
_OF_REGISTRY = (_REGISTRY, "basic.auth.", "bearer.auth.")

_Stat = tuple[str, int, int, int] | tuple[str]


class Credentials:
    """The newest usable logins and stores of a cluster's section; thread-safe.

    Args:
        cluster: the section as it was read first.
        clock: monotonic seconds.
    """

    def __init__(self, cluster: ClusterConfig, clock: Callable[[], float] = monotonic) -> None:
        self._first = self._cluster = cluster
        self._clock = clock
        self._lock = RLock()
        self._next_look = -_LOOK_S
        self._seen: tuple[_Stat, ...] | None = None
        self._files: frozenset[str] = frozenset()
        self._variables: frozenset[tuple[str, str]] = frozenset()
        self._rest = ""
        self._trouble = ""
        self._security: dict[str, Security] = {}
        self._stores: object = None
        self._generation = 0
        self._look()

    @property
    def generation(self) -> int:
        """A number that is larger after each renewal; looks for one, at most once a second."""
        with self._lock:
            if self._clock() >= self._next_look:
                self._look()
            return self._generation

    @property
    def cluster(self) -> ClusterConfig:
        """The section with the newest usable values."""
        with self._lock:
            _ = self.generation
            return self._cluster

    def security(self, role: str) -> Security | None:
        """Return the newest usable login and stores; None if there were never usable ones."""
        with self._lock:
            _ = self.generation
            return self._security.get(role)

    def read_again(self) -> None:
        """Read all again at the next look: a login or a certificate was refused."""
        with self._lock:
            self._seen, self._next_look = None, min(self._next_look, self._clock())

    def options(self, role: str) -> dict[str, Any]:
        """Return the newest options of login and TLS for a wire connection."""
        security = self.security(role)
        return for_wire(security) if security else {}

    @property
    def advice(self) -> str:
        """What makes this process use another login or certificate, for errors."""
        return self._advice(of_registry=False)

    @property
    def registry_advice(self) -> str:
        """The same for the login at the schema registry."""
        return self._advice(of_registry=True)

    def _advice(self, *, of_registry: bool) -> str:
        names = {
            safe_text(name)
            for key, name in self._variables
            if key.startswith(_OF_REGISTRY) == of_registry
        }
        if names:
            return (
                f"The environment variable {', '.join(sorted(names))} of a running process does "
                "not change: restart it with the new value."
            )
        if self._first.origin is None:
            return ""
        return "Passwords and certificates in files are read again when they change."

    def _look(self) -> None:
        self._next_look = self._clock() + _LOOK_S
        stats = self._stats()  # first: what changes meanwhile is seen by the next look
        if stats == self._seen and not self._trouble:
            return
        self._seen = stats
        try:
            reading = self._read()
        except ConfigError as error:
            if not self._security:
                self._take(self._first)  # such as a file that was removed after it was read
            self._cannot_use(error.message.splitlines()[-1].strip())
            return
        self._files, self._variables = reading.files, reading.variables
        self._seen = self._seen if self._seen == self._stats() else None
        self._take(self._first.with_security_of(reading.cluster))
        if self._rest and reading.rest != self._rest:
            _note(
                f"{self._name}: other settings than passwords and certificates have changed; "
                "they are used from the next start on"
            )
        self._rest = reading.rest

    def _read(self) -> Reading:
        origin = self._first.origin
        if origin is None:
            return Reading(self._first, frozenset(), frozenset(), "")
        return origin.read()

    def _take(self, cluster: ClusterConfig) -> None:
        """Use the values of a new reading, if all of them can be used."""
        security: dict[str, Security] = {}
        for role in ROLES:
            problems: list[UnusableProperty] = []
            resolved = resolve(cluster.properties(role), problems)
            if not problems:
                security[role] = resolved
            elif role in self._security:
                self._cannot_use(f"{safe_text(problems[0].key)}: {problems[0]}")
                return
        self._trouble = ""
        is_first, before = not self._security, (self._security, self._cluster.registry)
        try:
            stores = _registry_stores(cluster)
        except UnusableProperty as error:
            if not is_first:
                self._cannot_use(f"{safe_text(error.key)} of the registry: {error}")
                return
            stores = None
        if (security, cluster.registry, stores) == (*before, self._stores):
            return
        self._stores = stores
        for role in ROLES:
            remember_secrets(cluster.properties(role).items())
        remember_secrets(cluster.registry.config.items())
        self._security, self._cluster = security, cluster
        if not is_first:
            self._generation += 1
            _note(f"{self._name}: passwords and certificates were read again and are used now")

    def _cannot_use(self, trouble: str) -> None:
        if trouble != self._trouble and self._security:
            _note(
                f"{self._name}: passwords and certificates have changed and cannot be used yet "
                f"({trouble}); the former ones are used"
            )
        self._trouble = trouble

    @property
    def _name(self) -> str:
        origin = self._first.origin
        return f"{origin.label} cluster" if origin else safe_text(self._first.bootstrap_servers)

    def _stats(self) -> tuple[_Stat, ...]:
        names = set(self._files)
        for role in ROLES:
            names.update(_store_files(self._cluster.properties(role)))
        names.update(_store_files(self._cluster.registry.config))
        return tuple(map(_stat, sorted(names)))


def _registry_stores(cluster: ClusterConfig) -> object:
    """Return what the registry's stores hold, to compare it; raises UnusableProperty."""
    config = cluster.registry.config
    plain = {key.removeprefix(_REGISTRY): text.strip() for key, text in config.items()}
    return read_trust(plain), read_identity(plain)


def _store_files(properties: Mapping[str, str]) -> Iterator[str]:
    for key, text in properties.items():
        if key.removeprefix(_REGISTRY) in _STORES and text.strip():
            yield text.strip()
    try:
        options = parse_jaas(properties.get(_JAAS, "")).options
    except ValueError:
        return
    yield from (options[key] for key in _STORES if options.get(key))


def _stat(name: str) -> _Stat:
    try:
        status = os.stat(name)
    except (OSError, ValueError):
        return (name,)
    return name, status.st_ino, status.st_mtime_ns, status.st_size


_known: dict[object, Credentials] = {}
_lock = Lock()
_listeners: list[Callable[[str], None]] = []


def credentials_of(cluster: ClusterConfig) -> Credentials:
    """Return the credentials of a section; sections that say the same share them."""
    key = cluster.origin, repr(cluster.model_dump())  # not JSON: values may be no text
    with _lock:
        known = _known.pop(key, None)
        if known is None:
            known = Credentials(cluster)
            if len(_known) >= _MOST:
                del _known[next(iter(_known))]
        _known[key] = known
        return known


@contextmanager
def listening(report: Callable[[str], None]) -> Iterator[None]:
    """Call ``report`` with notes on what was renewed, or could not be, in this context."""
    _listeners.append(report)
    try:
        yield
    finally:
        _listeners.remove(report)


def _note(text: str) -> None:
    log.warning("%s", text)
    for report in tuple(_listeners):
        report(text)
