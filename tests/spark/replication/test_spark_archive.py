"""Local Spark sessions start with their archive of classes; those of a cluster without."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from k2ktui.config.model import SparkSettings
from k2ktui.replication.spark.archive import TRANSFORM_ARCHIVE_MAKER, archive_options, spark_archive
from k2ktui.replication.spark.settings import JAVA_OPTIONS, spark_properties
from tests.support.pipelines.pipeline import RUN_TIMEOUT
from tests.unit.runtime.test_class_archive import make_empty

_SESSION = """
import sys
from k2ktui.config.model import SparkSettings
from k2ktui.engine.transforms.model import Transform
from k2ktui.replication.spark.session import SparkRuntime
config = {"spark.driver.extraJavaOptions": f"-Xlog:class+load:file={sys.argv[1]}"}
settings = SparkSettings(master="local[1]", config=config)
transform = Transform(filter="offset > 1") if sys.argv[2] else None
runtime = SparkRuntime(settings, "test", {}, {}, transforms=transform is not None)
runtime.run_once(1, 300.0, transform)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("class_archives")
@pytest.mark.parametrize("transforms", [False, True])
def test_a_session_uses_the_archive(tmp_path: Path, transforms: bool) -> None:
    if transforms:
        pytest.importorskip("pyarrow")  # of the extra ``transform``
        subprocess.run(
            [sys.executable, "-m", TRANSFORM_ARCHIVE_MAKER], check=True, timeout=RUN_TIMEOUT
        )
    log = tmp_path / "classes.log"
    command = [sys.executable, "-c", _SESSION, str(log), "transform" if transforms else ""]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    spark = [line for line in log.read_text().splitlines() if " org.apache.spark." in line]
    # Java does not archive what it generates for Scala's lambda expressions.
    loaded = [line for line in spark if "$$Lambda" not in line]
    shared = [line for line in loaded if line.endswith("source: shared objects file (top)")]
    assert len(shared) > 0.95 * len(loaded) > 900


def test_only_local_sessions_have_the_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert make_empty(spark_archive())
    options = spark_archive().options()
    assert options and archive_options(SparkSettings(master="local[*]")) == options
    assert archive_options(SparkSettings(master="spark://host:7077")) == ()
    assert archive_options(SparkSettings(master="local[*]"), transforms=True) == ()
    assert make_empty(spark_archive(transforms=True))
    assert archive_options(SparkSettings(master="local[*]"), transforms=True)
    own = SparkSettings(master="local[2]", config={JAVA_OPTIONS: "-XX:SharedArchiveFile=/own.jsa"})
    assert archive_options(own) == ()


def test_options_of_the_pipeline_file_come_last(tmp_path: Path) -> None:
    settings = SparkSettings(master="local[2]", config={JAVA_OPTIONS: "-Xss2m"})
    properties = spark_properties(
        settings, "test", tmp_path, tmp_path / "log4j", ("-XX:One", "-XX:Two")
    )
    assert properties[JAVA_OPTIONS].endswith(" -XX:One -XX:Two -Xss2m")
