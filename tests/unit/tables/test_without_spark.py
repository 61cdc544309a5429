"""Where PySpark or PyArrow is not installed, the data source says what it needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

ASK = """
import sys
sys.modules[{package!r}] = None
import k2ktui.tables
try:
    from k2ktui.tables import Pipelines
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize("package", ["pyspark", "pyarrow"])
def test_what_is_missing_is_said_in_a_sentence(package: str) -> None:
    code = ASK.format(package=package)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("k2ktui.tables needs PySpark 4.1 or newer and PyArrow (")
    assert "'.[tables]'" in done.stdout
