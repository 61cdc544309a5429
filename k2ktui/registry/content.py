"""Read what a registry holds: subjects with their versions, references and settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from k2ktui.engine.schemas.model import RegistryContent, Schema, SchemaVersion, Subject
from k2ktui.registry.client import RegistryClient

T = TypeVar("T")
R = TypeVar("R")

_REQUESTS_AT_ONCE = 8


def read_content(
    client: RegistryClient,
    subjects: Iterable[str] | None = None,
    *,
    deleted: bool = False,
    modes: bool = True,
) -> RegistryContent:
    """Read subjects, and all subjects that their schemas refer to.

    Args:
        client: the registry.
        subjects: names of the subjects; all without them. Those that do not exist are left out.
        deleted: also read versions that were deleted, but not for good.
        modes: read the mode of each subject; otherwise the registry's stands for all.
    """
    known = set(client.subjects(deleted=deleted))
    names = known if subjects is None else known & set(subjects)
    return _read(client, names, set(), deleted=deleted, modes=modes)


def read_modes(client: RegistryClient, subjects: Iterable[str]) -> dict[str, str]:
    """Return the own mode of each subject; "" of one that has none."""
    names = sorted(subjects)
    return dict(zip(names, _on_each(client.mode, names), strict=True))


def read_versions(client: RegistryClient, pairs: Iterable[tuple[str, int]]) -> RegistryContent:
    """Read versions of subjects, deleted ones too, with what they refer to and nothing else.

    Args:
        client: the registry.
        pairs: subjects and versions.
    """
    return _read(client, set(), set(pairs), deleted=False, modes=False)


def read_history(client: RegistryClient, subject: str, number: int) -> RegistryContent:
    """Read all versions of a subject, and all subjects that their schemas refer to.

    Args:
        client: the registry.
        subject: the subject.
        number: a version that is read even if it was deleted.
    """
    return _read(client, {subject}, {(subject, number)}, deleted=False, modes=False)


def with_ids(
    client: RegistryClient, content: RegistryContent, ids: Iterable[int]
) -> RegistryContent:
    """Return the content with the schemas that have some ids, whatever their subjects."""
    missing = sorted(set(ids) - content.ids.keys())
    schemas = _on_each(client.schema, missing)
    by_id = {
        schema_id: schema for schema_id, schema in zip(missing, schemas, strict=True) if schema
    }
    needed = {reference.subject for schema in by_id.values() for reference in schema.references}
    more = read_content(client, needed - content.subjects.keys())
    subjects = {**more.subjects, **content.subjects}
    return replace(content, subjects=subjects, ids={**more.ids, **content.ids, **by_id})


def _read(
    client: RegistryClient,
    names: set[str],
    pairs: set[tuple[str, int]],
    *,
    deleted: bool,
    modes: bool,
) -> RegistryContent:
    whole = bool(names)
    versions: dict[tuple[str, int], SchemaVersion | None] = {}
    listed: set[str] = set()
    while names or pairs:
        for name, numbers in zip(
            sorted(names),
            _on_each(lambda name: client.versions(name, deleted=deleted), sorted(names)),
            strict=True,
        ):
            pairs |= {(name, number) for number in numbers}
        listed |= names
        wanted = sorted(pairs - versions.keys())
        read = _on_each(lambda pair: client.version(*pair), wanted)
        versions |= dict(zip(wanted, read, strict=True))
        schemas = [version.schema for version in read if version is not None]
        references = [reference for schema in schemas for reference in schema.references]
        # A version may be referred to although it was deleted, and is not listed.
        pairs = {
            (reference.subject, reference.version) for reference in references
        } - versions.keys()
        names = {reference.subject for reference in references} - listed if whole else set()
    return _content(
        client, [version for version in versions.values() if version is not None], modes
    )


def _content(client: RegistryClient, versions: list[SchemaVersion], modes: bool) -> RegistryContent:
    compatibility, mode = client.default_compatibility(), client.default_mode()
    by_name: dict[str, list[SchemaVersion]] = {}
    for version in sorted(versions, key=lambda version: version.version):
        by_name.setdefault(version.subject, []).append(version)

    def read(name: str) -> Subject:
        own = client.compatibility(name)
        return Subject(
            name,
            tuple(by_name[name]),
            # Some registries answer with the default for a subject without its own level.
            "" if own == compatibility else own,
            (client.mode(name) if modes else "") or mode,
        )

    subjects = {subject.name: subject for subject in _on_each(read, sorted(by_name))}
    ids: dict[int, Schema] = {version.id: version.schema for version in versions}
    return RegistryContent(subjects, compatibility, mode, client.types(), ids)


def _on_each(read: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Return the results of requests that are sent at the same time, in order."""
    with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:
        return list(pool.map(read, items))
