"""The process that forks the Python workers of copies: what is loaded in it, and from where."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pyspark

from k2ktui.config.model import SparkSettings
from k2ktui.replication.spark.installed_pyspark import without_archives
from k2ktui.replication.spark.session import SparkRuntime

ARCHIVES = Path(pyspark.__file__).parent / "python" / "lib"


def test_the_installed_pyspark_is_loaded_although_its_archive_comes_first() -> None:
    archives = sorted(str(path) for path in ARCHIVES.glob("*.zip"))
    assert len(archives) == 2
    code = (
        "from k2ktui.replication.spark.installed_pyspark import prefer_installed;"
        "prefer_installed();"
        "import pyspark, py4j; print(pyspark.__file__, py4j.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(archives)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ".zip" not in done.stdout and str(Path(pyspark.__file__)) in done.stdout


def test_archives_stay_if_their_spark_is_not_a_package_on_the_path(tmp_path: Path) -> None:
    lib = tmp_path / "site" / "pyspark" / "python" / "lib"
    paths = [str(lib / "pyspark.zip"), str(lib / "py4j-0.10.9.9-src.zip"), str(tmp_path / "x.zip")]
    assert without_archives(paths) == paths
    for name in ("pyspark", "py4j"):
        (tmp_path / "site" / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / "site" / name / "__init__.py").touch()
    assert without_archives(paths) == paths, "not on the path"
    site = str(tmp_path / "site")
    assert without_archives([*paths, site]) == [paths[2], site]
    other = ["/opt/spark/python/lib/pyspark.zip", site]
    assert without_archives(other) == other, "another Spark"


def test_workers_are_forked_from_a_process_with_their_modules_and_one_thread() -> None:
    nowhere = {"bootstrap_servers": ["127.0.0.1:9"]}
    spark = SparkRuntime(SparkSettings(master="local[1]"), "test", nowhere, nowhere)
    try:
        spark.start()
        spark.warm_up(1).result()  # its connections fail, which the first lap would report
        (daemon,) = _daemons()
        assert daemon.num_threads() == 1
        loaded = [mapped.path for mapped in daemon.memory_maps()]
        assert any("/numpy/" in path for path in loaded), "what tasks need"
    finally:
        spark.stop()


def _daemons() -> list[psutil.Process]:
    processes = [
        child
        for child in psutil.Process().children(recursive=True)
        if "k2ktui.replication.spark.copy_daemon" in child.cmdline()
    ]
    return [process for process in processes if process.parent() not in processes]
