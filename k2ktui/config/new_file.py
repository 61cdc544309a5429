"""The text of a new pipeline file, from answers; no secret is in it.

A secret is a template: an environment variable or a file. One in a file of client properties, such
as Kafka's tools take with ``--command-config``, stays there: the pipeline's file refers to its key.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import islice
from os.path import abspath

from k2ktui.config.clusters import BOOTSTRAP, PASSWORD_LOGINS, is_connection, one_line
from k2ktui.config.javaprops import parse
from k2ktui.config.show import yaml_scalar
from k2ktui.config.templates import PROVIDERS_KEY
from k2ktui.engine.java_patterns import compile_pattern
from k2ktui.errors import ConfigError
from k2ktui.secret_values import has_literal_secret, has_variable
from k2ktui.text import safe_text

ALL_TOPICS = ".*"
# The first name that the file of client properties does not use itself is taken.
_PROVIDERS = ("properties", "k2ktui", "k2ktui-secrets")
_PROVIDER_CLASS = "org.apache.kafka.common.config.provider.FileConfigProvider"
# The first part of a topic's name, with what ends it.
_PART = re.compile(r"[A-Za-z0-9]+[._-]")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_HEAD = """\
# Made by k2ktui init. All keys and defaults: docs/configuration.md
# The positions on the target have the pipeline's name: do not change it after the first start.
"""
_TAIL = """\
# A start creates the pipeline's own topics (__k2k_...) on the target.
features: {{autoCreateControlTopics: enabled}}
replication:
  # One regular expression for whole names, or a list of names. Topics that appear later are copied.
  - source: {{topic: {topics}}}
  # Names and partition numbers of the source; {{prefix: a.}} or {{suffix: .b}} renames topics.
  - sink: {{topic: source, partition: source}}
"""


@dataclass(frozen=True, slots=True)
class NewPipeline:
    """What a new pipeline's file says.

    Attributes:
        name: the pipeline's name.
        source, target: client properties of the clusters, with templates for secrets.
        topics: a regular expression for names of source topics.
    """

    name: str
    source: Mapping[str, str]
    target: Mapping[str, str]
    topics: str = ALL_TOPICS

    @property
    def text(self) -> str:
        """The commented file."""
        name = f"name: {yaml_scalar(self.name)}\n"
        clusters = _section("source", self.source) + _section("target", self.target)
        return _HEAD + name + clusters + _TAIL.format(topics=yaml_scalar(self.topics))


def _section(side: str, properties: Mapping[str, str]) -> str:
    lines = [f"{side}:", "  kafka:", "    common:"]
    lines += [f"      {yaml_scalar(k)}: {yaml_scalar(v)}" for k, v in properties.items()]
    return "\n".join(lines) + "\n"


def secret_template(origin: str) -> str:
    """Return the template of a secret: of a file if ``origin`` is a path, else of a variable."""
    kind, name = ("file", abspath(origin)) if "/" in origin else ("env", origin)
    return f"${{{kind}:string:{name}}}"


def login_properties(mechanism: str, user: str, secret: str) -> dict[str, str]:
    """Return the properties of a login with a password.

    Args:
        mechanism: one of :data:`~k2ktui.config.clusters.PASSWORD_LOGINS`.
        user: the user's name, as it is.
        secret: the template of the password.
    """
    module = PASSWORD_LOGINS[mechanism]
    quoted = re.sub(r'["\\]', r"\\\g<0>", user).replace("${", "$${")
    login = f'{module} required username="{quoted}" password="{secret}";'
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": login}


def trusted(ca_file: str) -> dict[str, str]:
    """Return the properties that trust a PEM file of certificates."""
    return {"ssl.truststore.type": "PEM", "ssl.truststore.location": abspath(ca_file)}


def read_client_properties(raw: bytes, file: str) -> tuple[dict[str, str], list[str]]:
    """Return how a client's properties connect, with references to its secrets, and what is not so.

    Variables in values stay, with the providers that the file declares.

    Args:
        raw: the content of the file.
        file: its name.

    Raises:
        ConfigError: the file is not valid, or a value has a variable and a secret beside it.
    """
    given = {key: entry.value for key, entry in parse(raw, file).items()}
    chosen = {k: v for k, v in given.items() if is_connection(k) or k.startswith(PROVIDERS_KEY)}
    declared = [name.strip() for name in chosen.get(PROVIDERS_KEY, "").split(",") if name.strip()]
    provider = next(name for name in _PROVIDERS if name not in declared)
    secret = [key for key, value in chosen.items() if has_literal_secret(key, value)]
    for key in secret:
        if has_variable(chosen[key]):
            raise ConfigError(
                f"{safe_text(file)}: {safe_text(key)} has a variable and a secret beside it, and "
                "only the whole value can stay in that file",
                hint="Make the secret a variable, too, or write the variable's value.",
            )
        chosen[key] = f"${{{provider}:{abspath(file)}:{key}}}"
    if secret:
        chosen[PROVIDERS_KEY] = ",".join([*declared, provider])
        chosen[f"{PROVIDERS_KEY}.{provider}.class"] = _PROVIDER_CLASS
    return chosen, [key for key in given if key not in chosen]


def with_address(servers: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Return client properties that begin with these bootstrap servers."""
    rest = {key: value for key, value in properties.items() if key != BOOTSTRAP}
    return {BOOTSTRAP: one_line(servers), **rest}


def propose_name(source: str, target: str) -> str:
    """Return a name for a pipeline between these bootstrap servers.

    It has the first parts of both first hosts that differ, or hosts and ports where none does.
    """
    addresses = [one_line(servers).partition(",")[0] for servers in (source, target)]
    hosts = [address.rpartition(":")[0] for address in addresses]
    is_number = any(re.fullmatch(r"[\d.]+|\[.*", host) for host in hosts)
    parts = ([host] if is_number else host.split(".") for host in hosts)
    differing = (pair for pair in zip(*parts, strict=False) if pair[0] != pair[1])
    return "-to-".join(_UNSAFE.sub("_", part) for part in next(differing, addresses))


def name_of_file(stem: str) -> str:
    """Return the name of a pipeline whose file is called so."""
    return _UNSAFE.sub("_", stem)


def escape_name(name: str) -> str:
    """Return a regular expression that matches this name alone, as Java and Python read it."""
    return re.sub(r"[^A-Za-z0-9_-]", r"\\\g<0>", name)


def propose_topics(names: Collection[str], most: int) -> list[tuple[str, int]]:
    """Return regular expressions with the number of topics that each matches, all topics first.

    Topics whose names begin with the same part share an expression.

    Args:
        names: the topics.
        most: maximum number of expressions.
    """
    starts = {name: match[0] for name in names if (match := _PART.match(name))}
    parts = {part: count for part, count in Counter(starts.values()).items() if count > 1}
    alone = [name for name in names if starts.get(name) not in parts]
    patterns = {f"{escape_name(part)}.*": count for part, count in parts.items()}
    patterns |= {escape_name(name): 1 for name in alone}
    offers = sorted(patterns.items(), key=lambda offer: (-offer[1], offer[0]))
    sound = (offer for offer in offers if _matches_as_said(*offer, names))
    return [(ALL_TOPICS, len(names)), *islice(sound, most - 1)]


def _matches_as_said(pattern: str, count: int, names: Collection[str]) -> bool:
    """Whether a pattern matches as many names; that of a name which no broker allows may not."""
    try:
        compiled = compile_pattern(pattern)
    except ValueError:
        return False
    return sum(compiled.fullmatch(name) is not None for name in names) == count
