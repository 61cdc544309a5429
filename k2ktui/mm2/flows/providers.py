"""Fills ``${provider:path:key}`` in MirrorMaker 2 files, for Kafka's own config providers."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from k2ktui.config.inputs import note_variable, value_of
from k2ktui.config.javaprops import Property
from k2ktui.config.problems import Problem
from k2ktui.config.templates import PROVIDERS_KEY, Provider, Report, Unfilled, fill, read_providers
from k2ktui.text import safe_text

_PROVIDER = re.compile(r"\$\{([^}:]*):")
_CLASS = "org.apache.kafka.common.config.provider.{}ConfigProvider"
# Names that documentation gives the providers of Connect workers, and those of Strimzi.
_USUAL = {
    **dict.fromkeys(("env", "strimzienv"), "EnvVar"),
    **dict.fromkeys(("file", "strimzifile"), "File"),
    **dict.fromkeys(("directory", "dir", "strimzidir"), "Directory"),
}
_SECRETS = ("secrets", "strimzisecrets")


def fill_variables(
    properties: Mapping[str, Property],
    env: Mapping[str, str],
    problems: list[Problem],
    *,
    on_connect: bool = False,
) -> dict[str, Property]:
    """Replace ``${…}`` of the providers that the file names; others are kept, as in Java.

    Args:
        properties: the file's properties.
        env: environment variables for ``EnvVarConfigProvider`` and secrets of Kubernetes.
        problems: receives an entry for every error.
        on_connect: the providers are those of Connect workers, which the file does not name: the
            usual names are known, and all others are errors.
    """

    def report(key: str, message: str) -> None:
        property_at = properties.get(key) or properties.get(PROVIDERS_KEY)
        problems.append(Problem(property_at.mark if property_at else None, safe_text(key), message))

    texts = {key: property_.value for key, property_ in properties.items()}
    providers = _usual_providers(env, report) if on_connect else read_providers(texts, env, report)
    filled = {}
    for key, property_ in properties.items():
        text = property_.value
        if f".{PROVIDERS_KEY}" in key:
            report(key, f"not supported; use {PROVIDERS_KEY} for the whole file")
        elif not key.startswith(PROVIDERS_KEY):
            # Also where the closing brace is missing: the text would be a login.
            for name in _PROVIDER.findall(text) if on_connect else ():
                if name not in providers:
                    wanted = f"expected a provider out of {', '.join(providers)}"
                    report(key, f"{wanted}, found {safe_text(name)}")
            with value_of(key):
                text = fill(text, providers, partial(report, key))
        filled[key] = replace(property_, value=text)
    return filled


def _usual_providers(env: Mapping[str, str], report: Report) -> dict[str, Provider]:
    declared = {PROVIDERS_KEY: ",".join(_USUAL)}
    declared |= {
        f"{PROVIDERS_KEY}.{name}.class": _CLASS.format(kind) for name, kind in _USUAL.items()
    }

    # Not a partial, whose repr would have the whole environment.
    def secret(path: str, key: str) -> str:
        return _from_secret(env, path, key)

    return {**read_providers(declared, env, report), **dict.fromkeys(_SECRETS, secret)}


def _from_secret(env: Mapping[str, str], path: str, key: str) -> str:
    """Return an entry of a Kubernetes secret, which an environment variable holds here."""
    variable = re.sub(r"[^A-Z0-9]", "_", f"{path}_{key}".upper())
    note_variable(variable)
    if variable in env:
        return env[variable]
    namespace, _, name = path.rpartition("/")
    where = f" -n {shlex.quote(namespace)}" if namespace else ""
    template = shlex.quote(f"{{{{index .data {json.dumps(key)} | base64decode}}}}")
    raise Unfilled(
        f"the environment variable {variable} is not set; set it with: export {variable}="
        f'"$(kubectl get secret {shlex.quote(name)}{where} -o go-template={template})"'
    )
