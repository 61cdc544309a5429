"""What a schema id in a record names in a registry, whatever its form."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from k2ktui.engine.schemas.ids import (
    IN_PAYLOAD,
    SchemaId,
    SchemaIdForm,
    describe_schema_id,
    encode_schema_id,
)
from k2ktui.engine.schemas.model import Schema, SchemaVersion
from k2ktui.errors import Refused
from k2ktui.registry.apicurio import find_global, global_id_of
from k2ktui.registry.client import RegistryClient
from k2ktui.registry.settings import NOTHING, RegistrySettings
from k2ktui.text import safe_text


def _is_global(form: SchemaIdForm, registry: RegistrySettings) -> bool:
    """Return whether ids of a form are global ids of Apicurio, else content ids or Confluent's."""
    return form is SchemaIdForm.GLOBAL_ID_HEADER or (form in IN_PAYLOAD and registry.uses_global_id)


def find_versions(client: RegistryClient, schema_id: SchemaId) -> tuple[tuple[str, int], ...]:
    """Return the subjects and versions that an id names; empty if the registry does not know it.

    Raises:
        ConfigError: the id is one of Apicurio's own, and the registry's URL is not.
        ConnectionFailed: the registry does not respond, or rejects the login.
    """
    if _is_global(schema_id.form, client.settings):
        return find_global(client.settings, schema_id.value)
    if schema_id.form is SchemaIdForm.GUID_HEADER:
        ids = client.ids_of_guid(describe_schema_id(schema_id))
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
    if _is_global(form, client.settings):
        number = global_id_of(client.settings, version.subject, version.version)
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
    if schema_id.form is SchemaIdForm.GUID_HEADER or _is_global(schema_id.form, client.settings):
        version = read_first(client, find_versions(client, schema_id))
        return version.schema if version else None
    return client.schema(schema_id.value)


def has_schema(client: RegistryClient, schema_id: SchemaId) -> bool:
    """Return whether a registry has the schema of an id; errors as for :func:`find_versions`."""
    if _is_global(schema_id.form, client.settings):
        return bool(find_versions(client, schema_id))
    if schema_id.form is SchemaIdForm.GUID_HEADER:
        return bool(client.ids_of_guid(describe_schema_id(schema_id)))
    return client.schema(schema_id.value) is not None


def read_first(client: RegistryClient, pairs: Sequence[tuple[str, int]]) -> SchemaVersion | None:
    """Return the first of some versions; None if there is none."""
    return client.version(*pairs[0]) if pairs else None
