"""The optional packages of the extra ``spark``: PySpark, a Java runtime and the download of Kafka.

Only commands that run a pipeline or the demo need them. Everything else works without: it reads and
writes both clusters through Kafka's protocol.
"""

from __future__ import annotations

import importlib.util

from k2ktui.errors import NotInstalled, install_command

_PYSPARK = "pyspark"
_JGO = "jgo"
_ARROW = ("pandas", "pyarrow")


def require_pyspark(doing: str) -> None:
    """Require what runs a pipeline.

    Args:
        doing: what needs it, the subject of the message.

    Raises:
        NotInstalled: PySpark is missing.
    """
    _require(doing, _PYSPARK)


def require_transform_packages(doing: str) -> None:
    """Require what runs transforms, beside PySpark.

    Args:
        doing: what needs it, the subject of the message.

    Raises:
        NotInstalled: PySpark, or a package of its Arrow interface, is missing.
    """
    _require(doing, _PYSPARK, *_ARROW, extra="spark,transform")


def require_demo_packages(doing: str) -> None:
    """Require what runs a pipeline and starts Kafka clusters.

    Args:
        doing: what needs it, the subject of the message.

    Raises:
        NotInstalled: PySpark, or the package that downloads Kafka, is missing.
    """
    _require(doing, _PYSPARK, _JGO)


def _require(doing: str, *packages: str, extra: str = "spark") -> None:
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise NotInstalled(
            f"{doing} needs packages that are not installed: {', '.join(missing)}",
            unchanged="Nothing was started or stopped.",
            hint=f"Install them, in k2ktui's checkout, with: {install_command(extra)}\n"
            "For a host without internet, see docs/deployment.md.",
        )
