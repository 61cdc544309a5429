"""Read what a registry holds: subjects with their versions, references and settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from k2ktui.engine.schemas.model import RegistryContent, Schema, SchemaVersion, Subject
from k2ktui.engine.schemas.plan import IMPORT_MODE
from k2ktui.registry.client import RegistryClient

T = TypeVar("T", str, int, tuple[str, int])
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
    return read_versions(client, (), names, deleted=deleted, modes=modes)


def read_versions(
    client: RegistryClient,
    pairs: Iterable[tuple[str, int]],
    subjects: Iterable[str] = (),
    *,
    deleted: bool = False,
    modes: bool = False,
) -> RegistryContent:
    """Read versions with what they refer to, and nothing else.

    Args:
        client: the registry.
        pairs: subjects and versions, deleted ones too.
        subjects: names of subjects to read all versions of, and of all that these refer to.
        deleted: as for :func:`read_content`.
        modes: as for :func:`read_content`.
    """
    waiting, names = set(pairs), set(subjects)
    whole = bool(names)
    versions: dict[tuple[str, int], SchemaVersion | None] = {}
    listed: set[str] = set()
    while names or waiting:
        numbers = _on_each(lambda name: client.versions(name, deleted=deleted), names)
        waiting |= {(name, number) for name in names for number in numbers[name]}
        listed |= names
        read = _on_each(lambda pair: client.version(*pair), waiting - versions.keys())
        versions |= read
        schemas = [version.schema for version in read.values() if version is not None]
        references = [reference for schema in schemas for reference in schema.references]
        # A version may be referred to although it was deleted, and is not listed.
        waiting = {
            (reference.subject, reference.version) for reference in references
        } - versions.keys()
        names = {reference.subject for reference in references} - listed if whole else set()
    existing = [version for version in versions.values() if version is not None]
    return _content(client, existing, modes)


def read_target(
    target: RegistryClient, names: set[str], source_content: RegistryContent
) -> RegistryContent:
    """Read what a plan needs of the target's registry.

    Args:
        target: the registry.
        names: the subjects that the plan names.
        source_content: what the source's registry has, whose ids count in mode ``IMPORT``.
    """
    content = read_content(target, names)
    new = _on_each(target.mode, names - content.subjects.keys())
    # A mode can be set before a subject has a version.
    empty = {
        name: Subject(name, mode=mode)
        for name, mode in new.items()
        if mode not in ("", content.mode)
    }
    subjects = {**content.subjects, **empty}
    if IMPORT_MODE not in {content.mode, *(subject.mode for subject in subjects.values())}:
        return replace(content, subjects=subjects)
    read = _on_each(target.schema, source_content.ids.keys() - content.ids.keys())
    by_id = {schema_id: schema for schema_id, schema in read.items() if schema}
    needed = {reference.subject for schema in by_id.values() for reference in schema.references}
    more = read_content(target, needed - subjects.keys())
    ids = {**more.ids, **content.ids, **by_id}
    return replace(content, subjects={**more.subjects, **subjects}, ids=ids)


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

    ids: dict[int, Schema] = {version.id: version.schema for version in versions}
    return RegistryContent(_on_each(read, by_name), compatibility, mode, client.types(), ids)


def _on_each(read: Callable[[T], R], items: Iterable[T]) -> dict[T, R]:
    """Return the results of requests, by item in order; some are sent at the same time."""
    ordered = sorted(items)
    with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:
        return dict(zip(ordered, pool.map(read, ordered), strict=True))
