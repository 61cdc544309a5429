"""Settings of Spark: which a run refuses, and how those of spark-submit are taken over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.config.model import SparkSettings
from k2ktui.errors import ConfigError, Refused
from k2ktui.replication.spark.settings import require_safe
from k2ktui.replication.spark.submitted import join_settings

SAFE = {
    "spark.task.maxFailures": "1",
    "spark.speculation": "false",
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.dynamicAllocation.enabled": "false",
}


def test_what_exactly_once_rests_on_is_accepted() -> None:
    require_safe([])
    require_safe([*SAFE.items(), ("spark.executor.memory", "1g")])
    require_safe([("spark.speculation", " FALSE ")])


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("spark.task.maxFailures", "4", "Spark would repeat a task"),
        ("spark.speculation", "true", "Spark would repeat a task"),
        ("spark.stage.maxConsecutiveAttempts", "4", "Spark would repeat a task"),
        ("spark.dynamicAllocation.enabled", "true", "executors would be removed from slots"),
        ("spark.dynamicAllocation.enabled", "\x1b[2J", "executors would be removed"),
    ],
)
def test_another_value_is_refused_with_the_reason(key: str, value: str, why: str) -> None:
    with pytest.raises(Refused) as caught:
        require_safe({**SAFE, key: value}.items())
    assert f"{key} is " in caught.value.message and why in caught.value.message
    assert caught.value.message.count(" must be ") == 1 and "\x1b" not in caught.value.message
    assert caught.value.unchanged == "Nothing was written."


def test_all_other_values_are_named_at_once() -> None:
    with pytest.raises(Refused) as caught:
        require_safe([("spark.task.maxFailures", "2"), ("spark.speculation", "true")])
    assert caught.value.message.count(" must be ") == 2


def test_master_and_settings_of_spark_submit_are_taken_over() -> None:
    own = SparkSettings(config={"spark.executor.memory": "1g"}, slots=3)
    joined = join_settings(
        own,
        {
            "spark.master": "spark://m:7077",
            "spark.app.name": "run.py",
            "spark.submit.deployMode": "client",
            "spark.executor.memory": "1g",
            "spark.cores.max": "8",
        },
    )
    assert joined.master == "spark://m:7077" and joined.slots == 3
    assert joined.config == {"spark.executor.memory": "1g", "spark.cores.max": "8"}


@pytest.mark.parametrize(
    ("own", "submitted", "named"),
    [
        (SparkSettings(master="spark://a:1"), {"spark.master": "spark://b:1"}, "spark.master"),
        (
            SparkSettings(config={"spark.cores.max": "2"}),
            {"spark.master": "local[*]", "spark.cores.max": "8"},
            "spark.cores.max",
        ),
    ],
)
def test_two_values_are_an_error(own: SparkSettings, submitted: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=f"different values of {named}\n"):
        join_settings(own, submitted)


def test_cluster_mode_is_refused() -> None:
    submitted = {"spark.master": "yarn", "spark.submit.deployMode": "cluster"}
    with pytest.raises(Refused, match="cluster mode"):
        join_settings(SparkSettings(), submitted)


@given(st.dictionaries(st.sampled_from(sorted(SAFE)), st.sampled_from(["1", "4", "true", "false"])))
def test_a_run_is_refused_exactly_if_a_value_differs(values: dict[str, str]) -> None:
    differs = any(SAFE[key] != value for key, value in values.items())
    if differs:
        with pytest.raises(Refused):
            require_safe(values.items())
    else:
        require_safe(values.items())
