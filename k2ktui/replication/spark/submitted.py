"""Settings of ``spark-submit``, where it has started this program in client mode.

The run starts a Java process of its own, as it does otherwise: it must be able to start it again.
Master and settings that ``spark-submit`` was given are taken over, so that none is ignored.
"""

from __future__ import annotations

from k2ktui.config.model import SparkSettings
from k2ktui.errors import ConfigError, Refused
from k2ktui.replication import _pyspark
from k2ktui.secret_values import remember_secrets
from k2ktui.text import safe_text

_MASTER, _DEPLOYED = "spark.master", "spark.submit.deployMode"
# Of the program that spark-submit started, not of a session.
_OF_PROGRAM = ("spark.app.", "spark.submit.", _MASTER)


def join_submitted(settings: SparkSettings) -> SparkSettings:
    """Return the settings with those of ``spark-submit``; as they are without it.

    Args:
        settings: the ``spark`` section of the pipeline's file.

    Raises:
        ConfigError: the file has another value for a setting, or another master.
        Refused: it started this program in cluster mode.
    """
    submitted = _pyspark.submitted_properties()
    return settings if submitted is None else join_settings(settings, submitted)


def join_settings(settings: SparkSettings, submitted: dict[str, str]) -> SparkSettings:
    """Return the settings with those that ``spark-submit`` was given; raises as above."""
    remember_secrets(submitted.items())
    if submitted.get(_DEPLOYED) == "cluster":
        raise Refused(
            "spark-submit has started this program in cluster mode, and a run needs client mode: "
            "its file and its secrets are where you start it",
            unchanged="Nothing was started.",
            hint="Leave --deploy-mode out.",
        )
    own = {key: value for key, value in submitted.items() if not key.startswith(_OF_PROGRAM)}
    master = submitted.get(_MASTER, settings.master)
    different = [key for key, value in own.items() if settings.config.get(key, value) != value]
    if settings.master not in (SparkSettings().master, master):
        different.append(_MASTER)
    if different:
        raise ConfigError(
            "the pipeline's file and spark-submit have different values of "
            f"{', '.join(safe_text(key) for key in sorted(different))}",
            unchanged="Nothing was started.",
            hint="Set each in one place.",
        )
    return settings.model_copy(update={"master": master, "config": {**settings.config, **own}})
