"""Fills ``${provider:path:key}`` in MirrorMaker 2 files, for Kafka's own config providers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from k2ktui.config.javaprops import Property
from k2ktui.config.problems import Problem
from k2ktui.config.providers import PROVIDERS_KEY, fill, read_providers
from k2ktui.text import safe_text


def fill_variables(
    properties: Mapping[str, Property], env: Mapping[str, str], problems: list[Problem]
) -> dict[str, Property]:
    """Replace ``${…}`` of the providers that the file names; others are kept, as in Java.

    Args:
        properties: the file's properties.
        env: environment variables for ``EnvVarConfigProvider``.
        problems: receives an entry for every error.
    """

    def report(key: str, message: str) -> None:
        found = properties.get(key) or properties.get(PROVIDERS_KEY)
        problems.append(Problem(found.mark if found else None, safe_text(key), message))

    texts = {key: property_.value for key, property_ in properties.items()}
    providers = read_providers(texts, env, report)
    filled = {}
    for key, property_ in properties.items():
        text = property_.value
        if f".{PROVIDERS_KEY}" in key:
            report(key, f"not supported; use {PROVIDERS_KEY} for the whole file")
        elif not key.startswith(PROVIDERS_KEY):
            text = fill(text, providers, lambda message, key=key: report(key, message))  # type: ignore[misc]
        filled[key] = replace(property_, value=text)
    return filled
