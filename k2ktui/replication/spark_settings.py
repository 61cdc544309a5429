"""What Spark is told at its start: what protects secrets, what the protocol needs, and defaults."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from k2ktui.config.model import SparkSettings

_LOCAL = re.compile(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?")
_STANDALONE = "spark://"
_LOOPBACK = "127.0.0.1"

# What the protocol stands on; a pipeline file may not change these.
_FIXED = {
    "spark.task.maxFailures": "1",
    "spark.speculation": "false",
    "spark.stage.maxConsecutiveAttempts": "1",
    # PySpark writes a larger task to a file, unencrypted and anew each lap; tasks hold secrets.
    "spark.broadcast.UDFCompressionThreshold": "1g",
}
# Every user of this machine can connect to loopback, and Spark's ports give away the tasks, with
# the Kafka passwords in them, to whoever asks. Spark makes the secret itself and keeps it in the
# memory of its Java process (SecurityManager.initializeAuth). Nothing connects from outside, so
# this costs no time.
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
    # A pipeline runs for months: what Spark remembers of jobs must stay small.
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "1000",
}
# Workers move megabytes: glibc would map and unmap each buffer, and the kernel clear its pages.
ALLOCATOR: Mapping[str, str] = {
    "MALLOC_MMAP_THRESHOLD_": str(256 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(512 << 20),
    "MALLOC_TOP_PAD_": str(16 << 20),
}
# A local driver only schedules: it should start quickly and stay small.
_LOCAL_DEFAULTS = {
    "spark.driver.host": _LOOPBACK,
    "spark.driver.bindAddress": _LOOPBACK,
}
_LOCAL_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_ENCRYPTED_NETWORK = (
    "spark.network.crypto.enabled",
    "spark.ssl.rpc.enabled",
    "spark.authenticate.enableSaslEncryption",
)


def local_cores(master: str) -> int | None:
    """Return how many tasks a local master runs at once, None for a cluster's master."""
    found = _LOCAL.fullmatch(master.strip())
    if found is None:
        return None
    wanted = found[1]
    if wanted == "*":
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return int(wanted or 1)


def is_local(master: str) -> bool:
    """Whether tasks run on this machine only, as children of the driver."""
    return local_cores(master) is not None


def set_environment(settings: SparkSettings, python: str, java_home: Path) -> None:
    """Set the variables of this process that Spark and its children read.

    Args:
        settings: the pipeline's ``spark`` section.
        python: the Python for tasks where neither the file nor the environment names one.
        java_home: the Java that runs Spark.
    """
    # PySpark reads the variable only; the property is for programs that spark-submit starts.
    chosen = settings.config.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
    os.environ["PYSPARK_PYTHON"] = chosen or python
    os.environ["JAVA_HOME"] = str(java_home)
    for name, value in ALLOCATOR.items():
        os.environ.setdefault(name, value)
    if is_local(settings.master):
        # The web UI, where a file turns it on, listens on this address and on no property's.
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)


def spark_properties(
    settings: SparkSettings, name: str, directory: Path, logging_file: Path
) -> dict[str, str]:
    """Return Spark's properties for a session.

    Args:
        settings: the pipeline's ``spark`` section.
        name: application name.
        directory: of this session, for its user alone.
        logging_file: log4j's configuration.
    """
    allocator = {f"spark.executorEnv.{name}": value for name, value in ALLOCATOR.items()}
    properties = {**_DEFAULTS, **allocator, **settings.config, **_FIXED}
    java = f"-Dlog4j2.configurationFile=file:{logging_file}"
    if is_local(settings.master):
        # What a killed Java leaves behind goes with everything else of this session.
        scratch = {"spark.local.dir": str(directory)}
        properties = {**_LOCAL_DEFAULTS, **scratch, **properties, **LOCAL_PROTECTION}
        java = f"{java} {_LOCAL_JAVA}"
    properties[_JAVA_OPTIONS] = f"{java} {properties.get(_JAVA_OPTIONS, '')}".strip()
    properties["spark.master"] = settings.master
    properties["spark.app.name"] = name
    return properties


def unauthenticated_reason(settings: SparkSettings) -> str:
    """Return why others could read the tasks from Spark's ports; empty if they cannot."""
    if is_local(settings.master):
        return ""
    if not _on(settings, "spark.authenticate"):
        return "spark.authenticate is off: whoever reaches Spark's ports can read the tasks"
    keys = ("spark.authenticate.secret", "spark.authenticate.secret.file")
    # YARN and Kubernetes hand out a secret of their own making.
    if settings.master.startswith(_STANDALONE) and not any(settings.config.get(k) for k in keys):
        return "spark.authenticate is on, but spark.authenticate.secret is not set"
    return ""


def unencrypted_properties(settings: SparkSettings) -> tuple[str, ...]:
    """Return the properties that are off and would encrypt tasks on the network and on disks."""
    if is_local(settings.master):
        return ()
    network = any(_on(settings, key) for key in _ENCRYPTED_NETWORK)
    disk = _on(settings, "spark.io.encryption.enabled")
    return (
        *(() if network else (_ENCRYPTED_NETWORK[0],)),
        *(() if disk else ("spark.io.encryption.enabled",)),
    )


def properties_text(properties: Mapping[str, str]) -> str:
    """Return the properties as a Java properties file."""
    return "".join(f"{_escaped(key)}={_escaped(text)}\n" for key, text in properties.items())


def _on(settings: SparkSettings, key: str) -> bool:
    return settings.config.get(key, "").strip().lower() == "true"


def _escaped(text: str) -> str:
    special = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "=": "\\=", ":": "\\:", "#": "\\#"}
    return "".join(special.get(char, char) for char in text)
