"""Recognizes files that configure MirrorMaker 2, which are not pipeline files."""

from __future__ import annotations

import re

from k2ktui.config.inputs import read_file

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
_CLUSTERS = re.compile(rb"^[ \t]*clusters[ \t]*[=:]", re.MULTILINE)
_FLOW = re.compile(rb"^[ \t]*[^\s#!]+->[^\s=:]+[ \t]*[=:]", re.MULTILINE)


def is_mirror_file(file: str) -> bool:
    """Return whether a ``-f`` argument names a file of MirrorMaker 2: ``FILE[#A->B]``.

    That is a ``.properties`` file, a YAML file with a Strimzi resource, or a connector's JSON. Of a
    name with another suffix, or none, such as ``-``, the content tells.
    """
    path = file.partition("#")[0]
    if path.endswith((PROPERTIES, *DOCUMENTS)):
        return path.endswith(PROPERTIES) or is_resource_file(path)
    content = _content(path)
    return _has_resources(content) or bool(_CLUSTERS.search(content) and _FLOW.search(content))


def is_resource_file(path: str) -> bool:
    """Return whether a file holds Strimzi resources or connectors instead of properties."""
    return not path.endswith(PROPERTIES) and _has_resources(_content(path))


def is_document(path: str, content: bytes) -> bool:
    """Return whether MirrorMaker 2's file is YAML or JSON, by its suffix or else by its content."""
    if path.endswith((PROPERTIES, *DOCUMENTS)):
        return path.endswith(DOCUMENTS)
    return content.lstrip()[:1] in (b"{", b"[") or _has_resources(content)


def _has_resources(content: bytes) -> bool:
    return bool(_RESOURCE.search(content) or _CONNECTOR.search(content))


def _content(path: str) -> bytes:
    try:
        return read_file(path)
    except (OSError, ValueError):
        return b""
