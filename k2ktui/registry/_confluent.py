"""What this package relies on in Confluent's registry client without its promise.

``tests/unit/registry/test_confluent_private.py`` says what breaks without each name.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote


def set_headers(client: Any, headers: Mapping[str, str]) -> None:
    """Send HTTP headers with every request; the client has no setting for them."""
    client._rest_client.session.headers.update(headers)


def skip_name_verification(client: Any) -> None:
    """Accept a certificate with another host name; the client has no setting for it."""
    client._rest_client.verify.check_hostname = False


def set_minimum_tls(client: Any, minimum: Any) -> None:
    """Refuse older versions of TLS; the client has no setting for it."""
    client._rest_client.verify.minimum_version = minimum


def limit_responses(client: Any, largest: int) -> None:
    """Let a request fail with ValueError when its response is larger; the client has no limit.

    Args:
        client: Confluent's.
        largest: size of a body in bytes. Compressed ones, whose size shows too late, are not
            asked for, and rejected.
    """
    session = client._rest_client.session
    library = importlib.import_module(type(session).__module__.partition(".")[0])

    class Limited(library.SyncByteStream):  # type: ignore[misc, name-defined]
        def __init__(self, stream: Any) -> None:
            self._stream = stream

        def __iter__(self) -> Iterator[bytes]:
            size = 0
            for part in self._stream:
                size += len(part)
                if size > largest:
                    raise ValueError(f"it is larger than {largest:,} bytes")
                yield part

        def close(self) -> None:
            self._stream.close()

    def limit(response: Any) -> None:
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise ValueError("it is compressed, which was not asked for")
        response.stream = Limited(response.stream)

    session.headers["Accept-Encoding"] = "identity"
    session.event_hooks = {"response": [limit]}


def import_schema(client: Any, subject: str, body: Mapping[str, Any]) -> Any:
    """Register a schema with a chosen id and version (mode ``IMPORT``) and return the answer.

    The client's own function sends neither id nor version.
    """
    return client._rest_client.post(f"subjects/{quote(subject, safe='')}/versions", dict(body))


def read_ids_of_guid(client: Any, guid: str) -> Any:
    """Return what the registry lists as ids of a GUID; the client has no function for it."""
    return client._rest_client.get(f"schemas/guids/{quote(guid, safe='')}/ids")


def read_schema_of_id(client: Any, schema_id: int) -> Any:
    """Return what the registry holds under an id, past the client's cache, which has no bound."""
    return client._rest_client.get(f"schemas/ids/{schema_id}")


def read_json(client: Any, path: str, query: Mapping[str, str]) -> Any:
    """Return the answer to a GET request below the client's URL."""
    return client._rest_client.get(path, dict(query))
