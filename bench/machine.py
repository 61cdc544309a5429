"""What the figures were measured on: no name of the machine, only what decides its speed."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import psutil

from k2ktui.runtime.artifacts import CONNECT_VERSION, KAFKA_VERSION
from k2ktui.runtime.java import find_java

_PROGRAM = "k2ktui"


def describe() -> dict[str, str]:
    """Return machine, versions and date, in the order of the report."""
    return {
        "Date": now(),
        "CPU": f"{_cpu_model()}, {os.cpu_count()} cores",
        "Memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "Kernel": f"{platform.system()} {platform.release()}",
        "Apache Kafka": f"{KAFKA_VERSION} (brokers), {CONNECT_VERSION} (MirrorMaker 2)",
        "Java": _java(),
        "Python": platform.python_version(),
        "Spark": version("pyspark"),
        "k2ktui": f"{version('k2ktui')} at {commit()}",
        "confluent-kafka": version("confluent-kafka"),
        "kafka-python": version("kafka-python"),
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model", "cpu model"):
            return value.strip()
    return platform.machine()


def _java() -> str:
    java = find_java()
    done = subprocess.run(
        [str(java.executable), "-version"], capture_output=True, text=True, check=False
    )
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return lines[1] if len(lines) > 1 else str(java.version)


def now() -> str:
    """The date and time, as in every table."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def is_in_memory(directory: Path) -> bool:
    """Whether files of a directory are in memory: then no disk limits what is copied."""
    places = [one for one in psutil.disk_partitions(all=True) if one.fstype in ("tmpfs", "ramfs")]
    return any(directory.is_relative_to(one.mountpoint) for one in places)


def commit() -> str:
    """The last commit that changed the program, so that one to the documents changes no figure.

    Followed by ``+`` if files of the program differ from it.
    """
    commit_id = _git("log", "-1", "--format=%h", "--", _PROGRAM)
    return commit_id + ("+" if _git("status", "--porcelain", "--", _PROGRAM) else "")


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(Path(__file__).parents[1]), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""
