"""What a schema id in a record names in a registry, whatever its form."""

from __future__ import annotations

import uuid

from k2ktui.engine.schemas.ids import IN_PAYLOAD, SchemaId, SchemaIdForm, encode_schema_id
from k2ktui.engine.schemas.model import Schema, SchemaVersion, is_same_schema
from k2ktui.errors import Refused
from k2ktui.registry.apicurio import ApicurioClient
from k2ktui.registry.client import RegistryClient
from k2ktui.registry.connection import NOTHING
from k2ktui.registry.content import read_versions
from k2ktui.registry.settings import RegistrySettings
from k2ktui.text import safe_text


def is_global(form: SchemaIdForm, registry: RegistrySettings) -> bool:
    """Return whether ids of a form are global ids of Apicurio, else content ids or Confluent's."""
    return form is SchemaIdForm.GLOBAL_ID_HEADER or (form in IN_PAYLOAD and registry.uses_global_id)


def find_versions(client: RegistryClient, schema_id: SchemaId) -> tuple[tuple[str, int], ...]:
    """Return the subjects and versions that an id names; empty if the registry does not know it.

    Raises:
        ConfigError: the id is one of Apicurio's own, and the registry's URL is not.
        ConnectionFailed: the registry does not respond, or rejects the login.
    """
    if is_global(schema_id.form, client.settings):
        own_version = _version_of_global_id(client, schema_id)
        return (own_version,) if own_version else ()
    if schema_id.form is SchemaIdForm.GUID_HEADER:
        ids = client.ids_of_guid(str(uuid.UUID(int=schema_id.value)))
        return tuple(pair for number in ids for pair in client.versions_of_id(number))
    return client.versions_of_id(schema_id.value)


def id_of_version(client: RegistryClient, form: SchemaIdForm, version: SchemaVersion) -> int:
    """Return what stands in a record for a version of a registry.

    Args:
        client: the registry.
        form: how the record holds the id.
        version: the version there.

    Raises:
        Refused: the registry gives it no id of the form, or one that does not fit into it.
        ConfigError, ConnectionFailed: as for :func:`find_versions`.
    """
    number: int | None = version.id
    if is_global(form, client.settings):
        with ApicurioClient(client.settings) as own:
            number = own.global_id(version.subject, version.version)
    elif form is SchemaIdForm.GUID_HEADER:
        number = uuid.UUID(version.guid).int if version.guid else None
    if number is None:
        raise Refused(
            f"{client.address} gives schema {version.id} of subject "
            f"{safe_text(version.subject)} no id of the form {form}",
            unchanged=NOTHING,
            hint="Use a registry of the same kind on both sides.",
        )
    try:
        encode_schema_id(SchemaId(form, number))
    except ValueError as error:
        raise Refused(
            f"{client.address} gives schema {version.id} of subject "
            f"{safe_text(version.subject)} the id {number}, which is too large for the form {form}",
            unchanged=NOTHING,
            hint="Use another registry on the target, or ids in headers.",
        ) from error
    return number


def read_schema(client: RegistryClient, schema_id: SchemaId) -> Schema | None:
    """Return the schema of an id; None if the registry does not know it.

    Raises:
        ConfigError, ConnectionFailed: as for :func:`find_versions`.
    """
    if schema_id.form is SchemaIdForm.GUID_HEADER or is_global(schema_id.form, client.settings):
        pairs = find_versions(client, schema_id)[:1]
        version = client.version(*pairs[0]) if pairs else None
        return version.schema if version else None
    return client.schema(schema_id.value)


def has_schema(client: RegistryClient, schema_id: SchemaId) -> bool:
    """Return whether a registry has the schema of an id; errors as for :func:`find_versions`."""
    if is_global(schema_id.form, client.settings):
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
    source_pairs, target_pairs = (
        find_versions(source, source_id)[:1],
        find_versions(target, target_id)[:1],
    )
    source_version = source.version(*source_pairs[0]) if source_pairs else None
    target_version = target.version(*target_pairs[0]) if target_pairs else None
    if source_version is None or target_version is None:
        return False
    return is_same_schema(
        source_version.schema,
        read_versions(source, source_pairs),
        target_version.schema,
        read_versions(target, target_pairs),
    )


def _version_of_global_id(client: RegistryClient, schema_id: SchemaId) -> tuple[str, int] | None:
    with ApicurioClient(client.settings) as own:
        return own.version_of(schema_id.value)
