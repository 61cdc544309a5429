"""Spark's settings at start: protection of secrets, protocol requirements, and defaults."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from k2ktui.config.model import SparkSettings
from k2ktui.errors import Refused
from k2ktui.runtime.host import has_user_name
from k2ktui.text import safe_text

_LOCAL = re.compile(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?")
_STANDALONE = "spark://"
LOOPBACK = "127.0.0.1"

# The exactly-once protocol depends on these; a pipeline file may not change them.
_FIXED = {
    "spark.task.maxFailures": "1",
    "spark.speculation": "false",
    "spark.stage.maxConsecutiveAttempts": "1",
    # PySpark writes larger tasks to an unencrypted file on every lap; tasks hold secrets.
    "spark.broadcast.UDFCompressionThreshold": "1g",
}
_REPEATS = "Spark would repeat a task whose records may still be on their way"
# Settings with which a run is not exactly once, or loses its slots: value, and why no other.
_REQUIRED: Mapping[str, tuple[str, str]] = {
    "spark.task.maxFailures": ("1", _REPEATS),
    "spark.speculation": ("false", _REPEATS),
    "spark.stage.maxConsecutiveAttempts": ("1", _REPEATS),
    "spark.dynamicAllocation.enabled": (
        "false",
        "executors would be removed from slots that wait for records",
    ),
}
# Every user of this machine can connect to loopback, and without authentication Spark's ports
# serve tasks, including their Kafka passwords, to any client. Spark generates the secret and keeps
# it in the memory of its Java process (SecurityManager.initializeAuth). Verbatim copies do not
# pass through Spark. What it costs a transform: docs/internals/decisions.md.
LOCAL_PROTECTION: Mapping[str, str] = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.saslFallback": "false",
    "spark.io.encryption.enabled": "true",
}
_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.killEnabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "512m",
    "spark.python.worker.reuse": "true",
    "spark.eventLog.enabled": "false",
    "spark.log.level": "ERROR",
    # A pipeline runs for months: limit the job history that Spark keeps in memory.
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "1000",
}
# Workers use buffers of several MB: by default glibc maps and unmaps each, and the kernel zeroes
# its pages.
ALLOCATOR: Mapping[str, str] = {
    "MALLOC_MMAP_THRESHOLD_": str(256 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(512 << 20),
    "MALLOC_TOP_PAD_": str(16 << 20),
}
_LOCAL_DEFAULTS = {
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    # Executors of a cluster get the code only when a worker starts.
    "spark.python.daemon.module": "k2ktui.replication.spark.copy_daemon",
}
# A local driver that only schedules should start quickly and stay small.
_LOCAL_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
# What transforms records runs long enough for the optimizing compiler: ten times the default number
# of calls and loops, because otherwise most of the time of a start goes into it.
TRANSFORM_JAVA = (
    "-XX:TieredStopAtLevel=4",
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
# Arrow's checks of every access to a value, and of Spark's own check for null, for programs with
# errors.
UNCHECKED_ARROW = (
    "-Darrow.enable_unsafe_memory_access=true",
    "-Darrow.enable_null_check_for_get=false",
)
# Rows between Java and Python: by default 64 KiB at a time.
_TRANSFORM_DEFAULTS = {"spark.buffer.size": str(1 << 20)}
_LOCAL_TRANSFORM_DEFAULTS = {
    "spark.python.daemon.module": "k2ktui.replication.spark.transform_daemon"
}
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_ENCRYPTED_NETWORK = (
    "spark.network.crypto.enabled",
    "spark.ssl.rpc.enabled",
    "spark.authenticate.enableSaslEncryption",
)


def local_cores(master: str) -> int | None:
    """Return how many tasks a local master runs at once; None for a cluster master."""
    match = _LOCAL.fullmatch(master.strip())
    if match is None:
        return None
    wanted = match[1]
    if wanted == "*":
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return int(wanted or 1)


def is_local(master: str) -> bool:
    """Return whether tasks run only on this machine, as children of the driver."""
    return local_cores(master) is not None


def spark_properties(
    settings: SparkSettings,
    name: str,
    directory: Path,
    logging_file: Path,
    java_options: Sequence[str] = (),
    *,
    transforms: bool = False,
) -> dict[str, str]:
    """Return Spark's properties for a session.

    Args:
        settings: the pipeline's ``spark`` section.
        name: application name.
        directory: the session's private directory.
        logging_file: log4j configuration file.
        java_options: more options of Java; those of the pipeline file come after them.
        transforms: the session transforms records.
    """
    allocator = {f"spark.executorEnv.{name}": value for name, value in ALLOCATOR.items()}
    more = _TRANSFORM_DEFAULTS if transforms else {}
    properties = {**_DEFAULTS, **more, **allocator, **settings.config, **_FIXED}
    # /tmp may be read-only; and what a killed Java leaves is removed with the directory.
    paths = [
        f"-Dlog4j2.configurationFile={logging_file.as_uri()}",
        f"-Djava.io.tmpdir={directory}",
        *([] if has_user_name() else [f"-Duser.home={directory}"]),  # by default "?", no path
    ]
    java = " ".join(map(_quote_option, paths))
    if is_local(settings.master):
        # Files that a killed Java process leaves behind are removed with the session's directory.
        scratch = {"spark.local.dir": str(directory)}
        defaults = {**_LOCAL_DEFAULTS, **(_LOCAL_TRANSFORM_DEFAULTS if transforms else {})}
        properties = {**defaults, **scratch, **properties, **LOCAL_PROTECTION}
        java = f"{java} {_LOCAL_JAVA}"
    options = [
        java,
        *((*TRANSFORM_JAVA, *UNCHECKED_ARROW) if transforms else ()),
        *java_options,
        properties.get(JAVA_OPTIONS, ""),
    ]
    properties[JAVA_OPTIONS] = " ".join(options).strip()
    properties["spark.master"] = settings.master
    properties["spark.app.name"] = name
    return properties


def require_safe(properties: Iterable[tuple[str, str]]) -> None:
    """Require settings that exactly once rests on; a missing one has Spark's default.

    Args:
        properties: those of the file, before Spark starts; those in effect, when it has.

    Raises:
        Refused: names each other value, and what would happen.
    """
    values = dict(properties)
    wrong = [
        f"{key} is {safe_text(values[key])} and must be {required}: {why}"
        for key, (required, why) in _REQUIRED.items()
        if key in values and values[key].strip().lower() != required
    ]
    if wrong:
        raise Refused(
            "Spark's settings do not allow a run: " + "; ".join(wrong),
            unchanged="Nothing was written.",
            hint="Remove them from spark.config, or from what starts Spark. "
            "See docs/spark-cluster.md#settings.",
        )


def unauthenticated_reason(settings: SparkSettings) -> str:
    """Return why others could read tasks from Spark's ports; empty if they cannot."""
    if is_local(settings.master):
        return ""
    if not _is_on(settings, "spark.authenticate"):
        return "spark.authenticate is off: anyone with access to Spark's ports can read the tasks"
    keys = ("spark.authenticate.secret", "spark.authenticate.secret.file")
    # YARN and Kubernetes generate and distribute the secret themselves.
    if settings.master.startswith(_STANDALONE) and not any(settings.config.get(k) for k in keys):
        return "spark.authenticate is on, but spark.authenticate.secret is not set"
    return ""


def unencrypted_properties(settings: SparkSettings) -> tuple[str, ...]:
    """Return the disabled properties that would encrypt tasks on the network and on disk."""
    if is_local(settings.master):
        return ()
    network = any(_is_on(settings, key) for key in _ENCRYPTED_NETWORK)
    disk = _is_on(settings, "spark.io.encryption.enabled")
    return (
        *(() if network else (_ENCRYPTED_NETWORK[0],)),
        *(() if disk else ("spark.io.encryption.enabled",)),
    )


def properties_text(properties: Mapping[str, str]) -> str:
    """Return the properties as a Java properties file."""
    return "".join(f"{_escape(key)}={_escape(text)}\n" for key, text in properties.items())


def _quote_option(option: str) -> str:
    """Return an option of Java as Spark's launcher reads it: TMPDIR may hold a blank."""
    if not re.search(r"""[\s"'\\]""", option):
        return option
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _is_on(settings: SparkSettings, key: str) -> bool:
    return settings.config.get(key, "").strip().lower() == "true"


def _escape(text: str) -> str:
    special = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "=": "\\=", ":": "\\:", "#": "\\#"}
    return "".join(special.get(char, char) for char in text)
