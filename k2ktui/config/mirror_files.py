"""Recognizes files that configure MirrorMaker 2, which are not pipeline files."""

from __future__ import annotations

import re
from pathlib import Path

from k2ktui.config.bounded_yaml import BYTE_LIMIT

PROPERTIES = ".properties"
#: Suffixes of files that hold YAML or JSON.
DOCUMENTS = (".yaml", ".yml", ".json")
# A Strimzi resource in YAML or JSON; a connector's JSON, as Kafka Connect's REST API takes it.
_RESOURCE = re.compile(
    rb"""(?:^\s*(?:-\s+)?|[{,]\s*)["']?kind["']?\s*:\s*["']?"""
    rb"""(?:KafkaMirrorMaker2|KafkaConnector)\b""",
    re.MULTILINE,
)
_CONNECTOR = re.compile(rb'"connector\.class"\s*:')


def is_mirror_file(file: str) -> bool:
    """Return whether a ``-f`` argument names a file of MirrorMaker 2: ``FILE[#A->B]``.

    That is a ``.properties`` file, a YAML file with a Strimzi resource, or a connector's JSON.
    """
    path = file.partition("#")[0]
    return path.endswith(PROPERTIES) or is_resource_file(path)


def is_resource_file(path: str) -> bool:
    """Return whether a file holds Strimzi resources or connectors instead of properties."""
    if not path.endswith(DOCUMENTS):
        return False
    try:
        with Path(path).open("rb") as opened:
            content = opened.read(BYTE_LIMIT)
    except (OSError, ValueError):
        return False
    return bool(_RESOURCE.search(content) or _CONNECTOR.search(content))
