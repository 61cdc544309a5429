"""Whether Spark's master can be reached: Spark itself takes more than a minute to give up."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from time import monotonic, sleep
from urllib.parse import urlsplit

from k2ktui.config.model import SparkSettings
from k2ktui.errors import ConfigError, ConnectionFailed
from k2ktui.kafka.unreachable import Address, addresses, refusal
from k2ktui.replication.spark.settings import is_local
from k2ktui.text import safe_text

# Forms that SparkContext.createTaskScheduler knows, beside those of local masters.
_STANDALONE, _KUBERNETES, _YARN = "spark://", "k8s://", "yarn"
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]")
_MESOS = re.compile(r"(?:zk|mesos)://")
_FORMS = "local[*], spark://HOST:PORT, yarn, or k8s://HTTPS-ADDRESS"
_GUIDE = "See docs/spark-cluster.md."

_REPLY_S, _CLOSED_S, _PAUSE_S = 5.0, 0.5, 0.1
_DEFAULT_PORTS = {"http": 80, "https": 443}

_HADOOP_DIRECTORIES = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_RESOURCE_MANAGER = "yarn.resourcemanager"
_HADOOP_DEFAULTS = {
    f"{_RESOURCE_MANAGER}.hostname": "0.0.0.0",  # noqa: S104 - Hadoop's default, to connect to
}
_RESOURCE_MANAGER_PORT = 8032
_REFERENCE = re.compile(r"\$\{([^}]+)\}")
_LARGEST_SITE = 4 << 20


def require_master(settings: SparkSettings, env: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Check that Spark's master accepts connections; return the addresses, sorted.

    Nothing is said about a master that accepts them and rejects the application. No address is
    returned for a master on this machine, nor if Hadoop's files do not tell where YARN is.

    Args:
        settings: the pipeline's ``spark`` section.
        env: the environment, which names Hadoop's configuration.

    Raises:
        ConfigError: Spark has no such master, or needs a variable for it.
        ConnectionFailed: no address accepts connections.
    """
    where = _addresses(settings, env)
    until = monotonic() + _CLOSED_S
    while why := refusal(where, _REPLY_S, silence_refuses=True):
        if monotonic() > until:
            raise ConnectionFailed(
                f"Spark's master {safe_text(settings.master)} accepts no connections: {why}",
                unchanged="Nothing was started.",
                hint=f"Check {_origin(settings.master)}, and that it is up. {_GUIDE}",
            )
        sleep(_PAUSE_S)
    return tuple(sorted(f"{host}:{port}" for host, port in where))


def _addresses(settings: SparkSettings, env: Mapping[str, str]) -> set[Address]:
    master = settings.master.strip()
    if is_local(master) or _LOCAL_CLUSTER.fullmatch(master):
        return set()
    if master.startswith(_STANDALONE):
        brokers_of_master = addresses(master.removeprefix(_STANDALONE))
    elif master.startswith(_KUBERNETES):
        brokers_of_master = _kubernetes(master.removeprefix(_KUBERNETES))
    elif master == _YARN:
        return _yarn(settings.config, env)
    else:
        brokers_of_master = set()
    if not brokers_of_master:
        raise _not_a_master(master)
    return brokers_of_master


def _not_a_master(master: str) -> ConfigError:
    if _MESOS.match(master) or master == "mesos":
        why = "Spark has no Mesos since version 4"
    else:
        why = "Spark knows no such master"
    return ConfigError(
        f"spark.master is {safe_text(master)}: {why}",
        unchanged="Nothing was started.",
        hint=f"Set spark.master to {_FORMS}. {_GUIDE}",
    )


def _origin(master: str) -> str:
    return "yarn-site.xml" if master.strip() == _YARN else "spark.master"


def _kubernetes(address: str) -> set[Address]:
    # Spark adds https if there is no scheme.
    try:
        parts = urlsplit(address if "://" in address else f"https://{address}")
        port = parts.port or _DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return set()
    return {(parts.hostname, port)} if parts.hostname and port else set()


def _yarn(config: Mapping[str, str], env: Mapping[str, str]) -> set[Address]:
    directories = [env[name] for name in _HADOOP_DIRECTORIES if env.get(name)]
    if not directories:
        raise ConfigError(
            f"spark.master is yarn, and neither {' nor '.join(_HADOOP_DIRECTORIES)} is set",
            unchanged="Nothing was started.",
            hint=f"Set HADOOP_CONF_DIR to the directory with yarn-site.xml. {_GUIDE}",
        )
    site = dict(_HADOOP_DEFAULTS)
    for directory in directories:
        site |= _read_site(Path(directory, "yarn-site.xml"))
    own = "spark.hadoop."
    site |= {name[len(own) :]: text for name, text in config.items() if name.startswith(own)}
    suffixes = [""]
    if site.get(f"{_RESOURCE_MANAGER}.ha.enabled", "").strip().lower() == "true":
        ids = site.get(f"{_RESOURCE_MANAGER}.ha.rm-ids", "").split(",")
        suffixes = [f".{name.strip()}" for name in ids]
    managers = set()
    for suffix in suffixes:
        host = _expand(site.get(f"{_RESOURCE_MANAGER}.hostname{suffix}", ""), site)
        default = f"{host}:{_RESOURCE_MANAGER_PORT}"
        address = _expand(site.get(f"{_RESOURCE_MANAGER}.address{suffix}", default), site)
        managers |= addresses(address if ":" in address else f"{address}:{_RESOURCE_MANAGER_PORT}")
    return managers


def _read_site(path: Path) -> dict[str, str]:
    """Return the properties of a file of Hadoop's; none if it does not exist.

    Raises:
        ConfigError: it cannot be read.
    """
    from xml.etree import ElementTree

    try:
        with path.open("rb") as file:
            text = file.read(_LARGEST_SITE)
        root = ElementTree.fromstring(text)  # noqa: S314 - the operator's own file, and bounded
    except FileNotFoundError:
        return {}
    except (OSError, ElementTree.ParseError) as error:
        raise ConfigError(
            f"{safe_text(path)} cannot be read: {safe_text(error)}",
            unchanged="Nothing was started.",
            hint="It is a file of HADOOP_CONF_DIR or YARN_CONF_DIR, which Spark needs for YARN.",
        ) from error
    return {
        (entry.findtext("name") or "").strip(): (entry.findtext("value") or "").strip()
        for entry in root.iter("property")
    }


def _expand(text: str, site: Mapping[str, str]) -> str:
    """Replace references to other properties, which Hadoop allows, once."""
    return _REFERENCE.sub(lambda match: site.get(match[1], match[0]), text)
