"""What a schema id in a record names in a registry, whatever its form."""

from __future__ import annotations

import uuid

from k2ktui.engine.schema_ids import SchemaId, SchemaIdForm
from k2ktui.engine.schemas import is_same_schema
from k2ktui.registry.apicurio import ApicurioClient
from k2ktui.registry.client import RegistryClient
from k2ktui.registry.content import read_versions
from k2ktui.registry.settings import RegistrySettings


def is_global(schema_id: SchemaId, registry: RegistrySettings) -> bool:
    """Return whether an id is a global id of Apicurio, else a content id or Confluent's."""
    return schema_id.form is SchemaIdForm.GLOBAL_ID_HEADER or (
        schema_id.form is SchemaIdForm.LONG_PREFIX and registry.uses_global_id
    )


def find_versions(client: RegistryClient, schema_id: SchemaId) -> tuple[tuple[str, int], ...]:
    """Return the subjects and versions that an id names; empty if the registry does not know it.

    Raises:
        ConfigError: the id is one of Apicurio's own, and the registry's URL is not.
        ConnectionFailed: the registry does not respond, or rejects the login.
    """
    if is_global(schema_id, client.settings):
        found = _version_of_global_id(client, schema_id)
        return (found,) if found else ()
    if schema_id.form is SchemaIdForm.GUID_HEADER:
        ids = client.ids_of_guid(str(uuid.UUID(int=schema_id.value)))
        return tuple(pair for each in ids for pair in client.versions_of_id(each))
    return client.versions_of_id(schema_id.value)


def has_schema(client: RegistryClient, schema_id: SchemaId) -> bool:
    """Return whether a registry has the schema of an id; errors as for :func:`find_versions`."""
    if is_global(schema_id, client.settings):
        return _version_of_global_id(client, schema_id) is not None
    if schema_id.form is SchemaIdForm.GUID_HEADER:
        return bool(client.ids_of_guid(str(uuid.UUID(int=schema_id.value))))
    return client.schema(schema_id.value) is not None


def name_same_schema(
    source: RegistryClient, source_id: SchemaId, target: RegistryClient, target_id: SchemaId
) -> bool:
    """Return whether ids of two registries name schemas that describe the same data.

    Subjects and versions may differ: a consumer reads the same objects with both.

    Args:
        source, source_id: the registry of the source, and an id there.
        target, target_id: the same of the target.

    Raises:
        ConfigError, ConnectionFailed: as for :func:`find_versions`.
    """
    ours, theirs = find_versions(source, source_id)[:1], find_versions(target, target_id)[:1]
    here = source.version(*ours[0]) if ours else None
    there = target.version(*theirs[0]) if theirs else None
    if here is None or there is None:
        return False
    return is_same_schema(
        here.schema, read_versions(source, ours), there.schema, read_versions(target, theirs)
    )


def _version_of_global_id(client: RegistryClient, schema_id: SchemaId) -> tuple[str, int] | None:
    with ApicurioClient(client.settings) as own:
        return own.version_of(schema_id.value)
