"""Address and credentials of a Kafka Connect REST API, in a small YAML file.

Secrets come from the environment or from files, with the same templates as in a pipeline file::

    url: https://connect-1:8083, https://connect-2:8083
    user: admin
    password: ${env:string:CONNECT_PASSWORD}
    tls: {ca: ca.pem, certificate: client.pem, key: client.key, keyPassword: ${file:key.txt}}
    timeout: 30 seconds
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from pydantic import Field, ValidationError, field_validator, model_validator

from k2ktui.config.clusters import Section
from k2ktui.config.problems import Problem, format_path
from k2ktui.config.scalars import Duration, Name
from k2ktui.config.templates import Templates
from k2ktui.config.tree import read_tree
from k2ktui.errors import ConfigError
from k2ktui.text import safe_message, safe_text

_TIMEOUT_S = 30.0


class ConnectTls(Section):
    """PEM files for https: trusted CAs (the system's by default) and the client certificate."""

    ca: Name = ""
    certificate: Name = ""
    key: Name = ""
    key_password: Name = Field(default="", repr=False)


class ConnectSettings(Section):
    """Connection settings of one Connect cluster.

    Attributes:
        url: comma-separated URLs of one or more workers; the first that answers is used.
        user, password: basic authentication; not used if ``user`` is empty.
        tls: TLS settings for https.
        timeout_s: limit for one request, a rebalance and a state change, in seconds.
    """

    url: Name
    user: Name = ""
    password: Name = Field(default="", repr=False)
    tls: ConnectTls = ConnectTls()
    timeout_s: Duration = Field(default=_TIMEOUT_S, gt=0)

    @field_validator("url")
    @classmethod
    def _usable(cls, url: str) -> str:
        for part in url.split(","):
            address = _split(part)
            if address.username is not None:
                raise ValueError("a URL without a user; give user and password as keys of a file")
            if address.scheme not in ("http", "https") or not address.hostname:
                raise ValueError("URLs such as http://connect-1:8083, separated by commas")
        return url

    @model_validator(mode="after")
    def _whole(self) -> ConnectSettings:
        if bool(self.tls.certificate) != bool(self.tls.key):
            raise ValueError("both tls.certificate and tls.key, or neither")
        return self

    @property
    def urls(self) -> tuple[str, ...]:
        """The workers' URLs."""
        return tuple(part.strip().rstrip("/") for part in self.url.split(","))

    def context(self) -> ssl.SSLContext:
        """Return the TLS context for https connections.

        Raises:
            ConfigError: a TLS file cannot be used.
        """
        tls = self.tls
        try:
            context = ssl.create_default_context(cafile=tls.ca or None)
            if tls.certificate:
                # Without a password callback, OpenSSL prompts for one on the terminal.
                context.load_cert_chain(tls.certificate, tls.key, lambda: tls.key_password)
        except (OSError, ValueError) as error:
            named = ", ".join(safe_text(f) for f in (tls.ca, tls.certificate, tls.key) if f)
            why = getattr(error, "reason", None) or getattr(error, "strerror", None) or "not PEM"
            raise ConfigError(
                f"the TLS files of Kafka Connect ({named}) cannot be used: {safe_message(why)}",
                unchanged="Nothing was changed.",
            ) from error
        return context


def connect_settings(
    url: str = "", file: str = "", env: Mapping[str, str] | None = None
) -> ConnectSettings:
    """Return the settings of a file, of a URL alone, or of a file with another URL.

    Args:
        url: overrides the file's URL; "" for none.
        file: YAML file; paths in it are relative to its directory; "" for none.
        env: variables for ``${env:…}``; defaults to the process environment.

    Raises:
        ConfigError: reports every error of the file.
    """
    problems: list[Problem] = []
    tree = read_tree(file, problems) if file else None
    if tree is not None:
        tree = Templates(os.environ if env is None else env, problems).fill(tree)
    if problems:
        raise _settings_error(problems)
    values = tree.plain() if tree is not None else {}
    if url:
        values["url"] = url
    try:
        settings = ConnectSettings.model_validate(values, by_alias=True, by_name=False)
    except ValidationError as failure:
        # The cause quotes values, and passwords may be among them.
        raise _settings_error([_problem(file, error) for error in failure.errors()]) from None
    tls = settings.tls
    beside = Path(file).parent
    files = {name: str(beside / value) for name in _FILES if (value := getattr(tls, name))}
    return settings.model_copy(update={"tls": tls.model_copy(update=files)})


_FILES = ("ca", "certificate", "key")


def _split(url: str) -> SplitResult:
    try:
        split_url = urlsplit(url.strip())
        _ = split_url.port
    except ValueError:
        # The cause quotes what it takes for the port, which may be a part of a password.
        raise ValueError("URLs such as http://connect-1:8083, separated by commas") from None
    return split_url


def _problem(file: str, error: Mapping[str, object]) -> Problem:
    location = error["loc"]
    path = format_path(location) if isinstance(location, tuple) else ""
    messages = {"missing": "missing; this key is required", "extra_forbidden": "unknown key"}
    message = str(error["msg"]).removeprefix("Value error, ")
    return Problem(
        None, ": ".join(filter(None, (file, path))), messages.get(str(error["type"]), message)
    )


def _settings_error(problems: list[Problem]) -> ConfigError:
    lines = "".join(f"\n  {problem}" for problem in problems)
    return ConfigError(
        f"the connection to Kafka Connect is not configured correctly:{lines}",
        unchanged="Nothing was changed.",
        hint="Give --connect URL, or --connect-file with url, user, password, tls, timeout.",
    )
