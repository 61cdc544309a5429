"""Spark's Java process, which takes a second to start while this process does something else.

It changes nothing and contacts no cluster until a Spark session begins in it.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from k2ktui.config.model import PipelineConfig, SparkSettings
from k2ktui.replication import _pyspark
from k2ktui.replication.spark.archive import archive_options
from k2ktui.replication.spark.environment import set_environment, use_own_spark
from k2ktui.replication.spark.settings import properties_text, spark_properties
from k2ktui.runtime.host import has_working_directory
from k2ktui.runtime.java import spark_java_home
from k2ktui.runtime.scratch import Scratch, sweep

_DIRECTORY = "k2ktui-lap-"
_LOG, _PROPERTIES, _ANSWER = "spark.log", "spark.properties", "gateway"
# StandaloneSchedulerBackend.dead, after a session has waited for its master for a minute.
_REJECTED = re.compile(r"Application has been killed\. Reason: (All masters are unresponsive.*)")
_LOG4J = """rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.console.type = Console
appender.console.name = stderr
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""


def application_name(config: PipelineConfig) -> str:
    """Return the name of a pipeline's Spark application."""
    return f"k2ktui {config.name}"


class SparkJava:
    """A Java process for one Spark session; it starts at once, on a thread.

    Args:
        settings: the pipeline's ``spark`` section.
        name: application name.
        transforms: the session will transform records.

    Attributes:
        gateway: the connection to it, once ``connect`` has returned.
    """

    def __init__(self, settings: SparkSettings, name: str, *, transforms: bool = False) -> None:
        self._settings, self._name, self._with_transforms = settings, name, transforms
        self._private: Scratch | None = None
        self.gateway: Any = None
        self._is_closed = False
        pool = ThreadPoolExecutor(1, thread_name_prefix="spark-java")
        self._process = pool.submit(self._start)
        pool.shutdown(wait=False)

    def _start(self) -> subprocess.Popen[bytes]:
        use_own_spark(self._settings)
        # First: the other Java home that Spark may get would be examined again.
        java_options = archive_options(self._settings, transforms=self._with_transforms)
        set_environment(self._settings, spark_java_home())
        sweep(_DIRECTORY)
        self._private = Scratch(_DIRECTORY)
        directory = self._private.path
        if not has_working_directory():
            os.chdir(directory)  # neither Java nor PySpark starts in none
        logging_file = directory / "log4j2.properties"
        logging_file.write_text(_LOG4J)
        properties = spark_properties(
            self._settings,
            self._name,
            directory,
            logging_file,
            java_options,
            transforms=self._with_transforms,
        )
        path = directory / _PROPERTIES
        path.touch(mode=0o600)
        path.write_text(properties_text(properties))
        return _pyspark.start_java(path, directory / _LOG, directory / _ANSWER, properties)

    def connect(self) -> Any:
        """Return the gateway to it as soon as it listens.

        Raises:
            Refused: no Java can be used.
            Exception: it did not start; ``said`` has its reason.
        """
        process = self._process.result()
        self.gateway = _pyspark.connect_java(process, self.directory / _ANSWER)
        return self.gateway

    @property
    def directory(self) -> Path:
        """Its private directory."""
        assert self._private is not None
        return self._private.path

    def said(self) -> list[str]:
        """Return what it wrote to its log."""
        if self._private is None:
            return []
        try:
            text = (self.directory / _LOG).read_text(errors="replace")
        except OSError:
            return []
        return [line for line in text.splitlines() if line.strip()]

    def why_rejected(self) -> str:
        """Return why the cluster's master has not taken the application; "" if it has.

        Only its log tells: afterwards, calls fail in many different ways.
        """
        return next((match[1] for line in self.said() if (match := _REJECTED.search(line))), "")

    def forget_properties(self) -> None:
        """Remove the file with its settings, which may hold secrets; it has read them."""
        (self.directory / _PROPERTIES).unlink()

    def close(self) -> None:
        """End it and remove its files; later calls do nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        with contextlib.suppress(Exception):  # it did not start
            process = self._process.result()
            if self.gateway is None:
                process.kill()
                process.wait()
        if self.gateway is not None:
            _pyspark.end_java(self.gateway)
            self.gateway = None
        self.forget_files()

    def forget_files(self) -> None:
        """Remove its private directory."""
        private, self._private = self._private, None
        if private is not None:
            private.remove()
