"""Which file a failback takes, and how it finds the forward pipeline's."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from k2ktui.drill.forward import load_forward
from k2ktui.errors import ConfigError
from tests.unit.drill.test_reverse import PIPELINE

TWO_WAY = {**PIPELINE, "features": {"bidirectionalReplication": "enabled"}}


def write(path: Path, pipeline: object = TWO_WAY) -> str:
    path.write_text(yaml.safe_dump(pipeline))
    return str(path)


def test_the_forward_pipeline_is_found_by_the_name_of_the_reverse_file(tmp_path: Path) -> None:
    forward = write(tmp_path / "orders.yaml")
    loaded = load_forward([str(tmp_path / "orders-reverse.yaml")])
    assert loaded.files == (forward,) and loaded.config.name == "orders"


def test_another_name_is_an_option(tmp_path: Path) -> None:
    forward = write(tmp_path / "there.yaml")
    assert load_forward([str(tmp_path / "back.yaml")], forward).files == (forward,)


@pytest.mark.parametrize("exists", [True, False])
def test_the_forward_file_is_refused_with_the_right_command(tmp_path: Path, exists: bool) -> None:
    file, back = write(tmp_path / "orders.yaml"), tmp_path / "orders-reverse.yaml"
    if exists:
        write(back)
    with pytest.raises(ConfigError, match="with the file of the reverse pipeline") as refused:
        load_forward([file])
    hint = refused.value.hint
    assert f"k2ktui drill failback -f {back}." in hint
    assert (f"k2ktui config reverse -f {file} > {back}" in hint) is not exists


def test_a_missing_forward_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"orders\.yaml, the file of .*, does not exist") as error:
        load_forward([str(tmp_path / "orders-reverse.yaml")])
    assert "--forward" in error.value.hint


def test_a_forward_pipeline_that_would_copy_everything_back_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "orders.yaml", PIPELINE)
    with pytest.raises(ConfigError, match="would copy back what the reverse pipeline has copied"):
        load_forward([str(tmp_path / "orders-reverse.yaml")])
