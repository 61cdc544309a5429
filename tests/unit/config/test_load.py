from __future__ import annotations

import subprocess
import sys

import pytest

from k2ktui.config.load import SEVERAL_NAMES, load
from k2ktui.config.model import StartPosition
from k2ktui.errors import ConfigError, ExitCode
from tests.support.records.lenses import OFFSET_MAPPING_APPLICATION
from tests.unit.config.files import MINIMAL, Files


def test_the_offset_mapping_applications_file(files: Files) -> None:
    paths = files.write({"a.yaml": OFFSET_MAPPING_APPLICATION})
    loaded = load(paths, need_replication=False)
    config = loaded.config
    assert config.consumer_groups.matches("my-app-1")
    assert not config.consumer_groups.matches("your-my-app-1")
    assert config.offset_mapping.retention.time_s is None
    assert config.offset_mapping.retention.schedule_s == 300
    mapping = config.topic_creation.control_for("offset_mapping")
    assert (mapping.partitions, mapping.replication) == (6, 3)
    assert mapping.config == {
        "min.insync.replicas": "2",
        "cleanup.policy": "delete",
        "retention.ms": "604800000",
    }
    assert config.topic_creation.control_for("metrics").replication == 3
    assert not config.topics.matches("anything")
    reported = [note.rpartition("a.yaml:")[2] for note in loaded.notes]
    assert reported[0].startswith("license") and reported[1].startswith("no replication section")
    assert [note.split()[1] for note in reported[2:]] == [
        "metrics.prefix.targetConsumer:",
        "metrics.prefix.targetProducer:",
    ]
    with pytest.raises(ConfigError, match=r"replication: missing"):
        load(paths)


def test_defaults(files: Files) -> None:
    config = files.over_minimal().config
    features = config.features
    assert features.exactly_once and features.header_replication and features.offset_mapping
    assert not features.auto_create_control_topics
    commit = config.coordination.commit
    assert (commit.topic, commit.group) == ("__k2k_consumer-offsets", "p")
    assert (commit.sync_timeout_s, commit.batch_size, commit.batch_timeout_s) == (30, 1000, 2)
    assert config.start == StartPosition("earliest")
    assert config.on_source_data_loss == "fail"


@pytest.mark.parametrize(
    ("yaml", "read"),
    [
        ("coordination: {kafka: {commit: {topic: x}}}", "coordination.commit.topic"),
        ("coordination: {kafka: {assignement: {topic: x}}}", "coordination.assignment.topic"),
        ("coordination: {assignement: {topic: x}}", "coordination.assignment.topic"),
        ("features: {applyMappingsGuards: off}", "features.apply_mappings_guard"),
        (
            "features: {optimizeCommitPartition: disabled}",
            "features.optimize_offset_commit_partition",
        ),
    ],
)
def test_second_spellings(files: Files, yaml: str, read: str) -> None:
    value: object = files.over_minimal(yaml).config
    for name in read.split("."):
        value = getattr(value, name)
    assert value in ("x", False)


def test_connection_servers_of_the_first_release(files: Files) -> None:
    config = files.load(
        "name: p\n"
        "source: {kafka: {connection: {servers: [a:1, 'b:2']}}}\n"
        "target: {kafka: {connection: {servers: 'c:3'}}}\n"
        "replication: [source: {topic: t}]\n"
    ).config
    assert config.source.properties("consumer") == {"bootstrap.servers": "a:1,b:2"}
    assert config.target.bootstrap_servers == "c:3"


def test_the_file_of_lenses_helm_chart_of_the_alpha_releases(files: Files) -> None:
    loaded = files.load(
        "name: p\n"
        "features: {offsetCommitOptimizePartition: disabled}\n"
        "coordination:\n"
        "  kafka:\n"
        "    charset: UTF-8\n"
        "    consumer:\n"
        "    connection: {servers: 'c:3'}\n"
        "    commit: {group: g}\n"
        "source: {kafka: {registry: {url: 'http://one'}, connection: {servers: 'a:1'}}}\n"
        "target:\n"
        "  kafka: {registry: {url: 'http://two'}, producer: , connection: {servers: 'c:3'}}\n"
        "replication: [{source: {topic: [t]}, sink: {topic: {prefix: x.}}}]\n"
    )
    config = loaded.config
    assert config.features.optimize_offset_commit_partition is False
    urls = [s.registry.config["schema.registry.url"] for s in (config.source, config.target)]
    assert urls == ["http://one", "http://two"]
    assert config.target.bootstrap_servers == "c:3"
    assert "coordination.charset is ignored: it is UTF-8" in loaded.notes


def test_another_registry_key_of_the_alpha_releases_is_an_error(files: Files) -> None:
    yaml = "source: {kafka: {registry: {url: 'http://one', login: x}}}"
    assert len(files.errors(MINIMAL, yaml)) == 1


def test_an_entry_of_a_list_that_is_no_name_is_named(files: Files) -> None:
    for entry, found in (("~", "nothing"), ("[b]", "a list"), ("{b: c}", "a mapping")):
        yaml = f"replication: [source: {{topic: [a, {entry}]}}]"
        (error,) = files.errors(MINIMAL, yaml)
        assert error.endswith(f"source.topic[1]: expected a string, found {found}"), error


def test_a_parsers_message_keeps_its_own_words(files: Files) -> None:
    (error,) = files.errors("a: {b: c d: e}")
    assert "expected ',' or '}', but got ':'" in error
    (error,) = files.errors("a: *pass'word")
    assert "pass" not in error


def test_both_spellings_at_once_are_a_conflict(files: Files) -> None:
    yaml = "coordination:\n  commit: {topic: b}\n  kafka:\n    commit: {topic: a, batchSize: 3}\n"
    assert files.errors(MINIMAL, yaml) == [
        "b.yaml:4: coordination.kafka.commit.topic: "
        "already given as coordination.commit.topic in line 2"
    ]


def test_the_charset_of_positions_is_ignored_aloud(files: Files) -> None:
    yaml = "coordination: {commit: {charset: UTF-16, topic: positions}}"
    loaded = files.over_minimal(yaml)
    assert loaded.notes == ("coordination.commit.charset is ignored: it is UTF-8",)
    assert loaded.config.coordination.commit.topic == "positions"


def test_license_is_ignored_aloud_once(files: Files) -> None:
    yaml = "license: {acceptEULA: true, token: '${env:string:NOT_SET}'}"
    assert files.over_minimal(yaml, yaml).notes == ("license is ignored: k2ktui needs none",)


def test_every_error_is_reported_at_once_with_its_place(files: Files) -> None:
    yaml = """\
nmae: p
features:
  exactlyOnce: maybe
  exactlyOnces: enabled
headerReplication: enabled
coordination:
  kafka:
    commit:
      syncTimeout: 5
      batchSize: 0
groups:
  pollInterval: 0 seconds
  colour: green
replication:
  - source: {topic: "("}
  - sink: {partition: sauce, topic: {perfix: a}}
start: {from: timestamp}
"""
    errors = files.errors(MINIMAL.replace("name: p\n", ""), yaml)
    assert errors == [
        "a.yaml:1: name: missing; this key is required",
        "b.yaml:1: nmae: unknown key; did you mean name?",
        'b.yaml:3: features.exactlyOnce: expected enabled or disabled, found "maybe"',
        "b.yaml:4: features.exactlyOnces: unknown key; did you mean features.exactlyOnce?",
        "b.yaml:5: headerReplication: unknown key; did you mean features.headerReplication?",
        "b.yaml:9: coordination.kafka.commit.syncTimeout: expected a duration with its unit, "
        'such as "750 milliseconds" or "5 seconds", found "5"',
        'b.yaml:10: coordination.kafka.commit.batchSize: expected at least 1, found "0"',
        'b.yaml:12: groups.pollInterval: expected at least 0.5, found "0 seconds"',
        "b.yaml:13: groups.colour: unknown key; known keys are consumerGroups, "
        "offsetGuardPrefix, pollInterval",
        "b.yaml:15: replication[0].source.topic: expected a valid regular expression "
        '(missing ), unterminated subpattern at position 0), found "("',
        "b.yaml:16: replication[1].sink.topic: expected source, {prefix: …, suffix: …}, "
        "{static: topic}, {staticMapping: {pattern: topic}} or {expression: SQL, topics: "
        "[topic, …]}, found a mapping",
        "b.yaml:16: replication[1].sink.partition: expected source, producer or {expression: SQL}, "
        'found "sauce"',
        "b.yaml:17: start: expected start.timestamp, because start.from is timestamp",
    ]


def test_python_names_are_unknown_keys(files: Files) -> None:
    assert "unknown key; did you mean readOnly?" in files.errors(MINIMAL + "read_only: true")[0]


def test_exit_code() -> None:
    with pytest.raises(ConfigError) as caught:
        load(["no-such-file.yaml"])
    assert caught.value.exit_code == ExitCode.USAGE
    assert "no-such-file.yaml: cannot be read: No such file" in caught.value.message
    assert "missing" not in caught.value.message


def test_duplicate_keys_are_errors(files: Files) -> None:
    assert files.errors(MINIMAL, "groups:\n  pollInterval: 1 s\n  pollInterval: 2 s\n") == [
        "b.yaml:3: groups.pollInterval: duplicate key, first given in line 2"
    ]


def test_yaml_errors_do_not_quote_the_line(files: Files) -> None:
    errors = files.errors(MINIMAL, 'source:\n  kafka: {common: {sasl.jaas.config: "hunter2}}\n')
    assert errors[0].startswith("b.yaml:") and "hunter2" not in errors[0]


def test_values_of_secret_keys_are_not_in_errors(files: Files) -> None:
    yaml = "source: {kafka: {common: {sasl.jaas.config: [{a: hunter2}], ssl.key.password: {b: c}}}}"
    errors = files.errors(MINIMAL, yaml)
    assert len(errors) == 2 and "hunter2" not in "".join(errors)


def test_merge_keys_and_anchors(files: Files) -> None:
    config = files.load(
        "name: p\n"
        "source: &side {kafka: {common: &c {bootstrap.servers: 's:1', client.id: x}}}\n"
        "target: {<<: *side, kafka: {common: {<<: *c, bootstrap.servers: 't:1'}}}\n"
        "replication: [source: {topic: t}]\n"
    ).config
    assert config.target.kafka.common == {"bootstrap.servers": "t:1", "client.id": "x"}


def test_a_loop_of_anchors_ends(files: Files) -> None:
    errors = files.errors(MINIMAL + "groups: &g {consumerGroups: [*g]}")
    assert "the alias refers to a value that contains it" in errors[0]


def test_layers(files: Files) -> None:
    base = """\
name: p
source: {kafka: {common: {bootstrap.servers: "s:1", a: "1"}}}
target: {kafka: {common: {bootstrap.servers: "t:1"}}}
replication: [{source: {topic: [a, b]}}, {sink: {topic: {prefix: x}, partition: producer}}]
groups: {consumerGroups: [a, b], pollInterval: 1 s}
"""
    over = """\
source: {kafka: {common: {bootstrap.servers: "s:2"}, consumer: }}
target: {kafka: {common: }}
groups: {consumerGroups: [c]}
replication: [sink: {topic: {suffix: y}}]
"""
    loaded = files.load(base, over)
    config = loaded.config
    assert config.source.kafka.common == {"bootstrap.servers": "s:2", "a": "1"}
    assert config.target.bootstrap_servers == "t:1"
    assert config.groups.consumer_groups == ("c",)
    assert config.groups.poll_interval_s == 1
    assert config.topic_mapping.target_for("t") == "ty"
    assert config.replication.sink.partition == "producer"
    assert config.topics.names == ("a", "b")


def test_files_may_be_separated_by_commas(files: Files) -> None:
    paths = files.write({"a.yaml": MINIMAL, "b.yaml": "name: b", "c.yaml": "name: c"})
    assert load([",".join(paths[:2]), paths[2]]).config.name == "c"
    assert load([paths[0], f"{paths[2]}, {paths[1]}"]).config.name == "b"


def test_provenance(files: Files) -> None:
    loaded = files.over_minimal("features:\n  tracingHeaders: enabled\nname: q\n")
    source = {path: place.split("/")[-1] for path, place in loaded.provenance.items()}
    assert source[("name",)] == "b.yaml:3"
    assert source[("target", "kafka", "common", "bootstrap.servers")] == "a.yaml:3"
    assert loaded.source_of(("features", "tracingHeaders", "topic")).endswith("b.yaml:2")
    assert loaded.source_of(("features", "exactlyOnce")) == "default"


def test_names_stay_as_they_were_written(files: Files) -> None:
    config = files.over_minimal(
        "name: 1.10\nreplication: [source: {topic: [no, 007, 12:30, 2025-01-01]}]"
    ).config
    assert config.name == "1.10"
    assert config.topics.names == ("no", "007", "12:30", "2025-01-01")


def test_properties_become_java_text(files: Files) -> None:
    common = "{bootstrap.servers: x, a: true, b: 1000, c: yes, d: 'yes', e: 1.50, f: [1, on], g: }"
    config = files.over_minimal(f"source: {{kafka: {{common: {common}}}}}").config
    wanted = {"a": "true", "b": "1000", "c": "true", "d": "yes", "e": "1.50", "f": "1,true"}
    assert config.source.kafka.common == {"bootstrap.servers": "x", **wanted}


@pytest.mark.parametrize(
    ("yaml", "start"),
    [
        ("start: {from: latest}", StartPosition("latest")),
        ("start: {timestamp: 5}", StartPosition("timestamp", 5)),
        (
            "source: {kafka: {consumer: {auto.offset.reset: latest}}}",
            StartPosition("latest", later="latest"),
        ),
        (
            "source: {kafka: {consumer: {auto.offset.reset: latest}}}\nstart: {from: latest}",
            StartPosition("latest"),
        ),
    ],
)
def test_start(files: Files, yaml: str, start: StartPosition) -> None:
    assert files.over_minimal(yaml).config.start == start


@pytest.mark.parametrize(
    ("yaml", "key"),
    [
        (
            "source: {kafka: {consumer: {auto.offset.reset: latest}}}\nstart: {from: earliest}",
            "start",
        ),
        (
            "source: {kafka: {consumer: {auto.offset.reset: latest}}}\nstart: {timestamp: 5}",
            "start",
        ),
        ("source: {kafka: {consumer: {auto.offset.reset: none}}}", "source"),
        ("start: {from: earliest, timestamp: 5}", "start"),
        ("start: {from: timestamp}", "start"),
        ("mm2: {publish: enabled, sourceAlias: east}", "mm2"),
    ],
)
def test_contradictions(files: Files, yaml: str, key: str) -> None:
    assert [line.split(": ")[1] for line in files.errors(MINIMAL, yaml)] == [key]


def test_topic_settings_of_rules(files: Files) -> None:
    rules = files.over_minimal(
        "topicCreation: {replication: {common: {partitions: 2, config: {a: 1, b: 1}}, rules: ["
        "{pattern: 'x.*', properties: {replication: 3, config: {b: 2}}},"
        "{pattern: 'xy', properties: {partitions: 9}}]}}"
    ).config.topic_creation.replication
    settings = rules.settings_for("xy")
    assert (settings.partitions, settings.replication, settings.config) == (
        2,
        3,
        {"a": "1", "b": "2"},
    )
    assert rules.settings_for("other").replication is None


def test_configuration_loads_no_client_library_and_no_console() -> None:
    heavy = ["pyspark", "textual", "kafka", "confluent_kafka", "rich", "click"]
    script = f"import sys, k2ktui.config.show; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_files_of_several_names_are_one_pipeline_and_that_is_noted(files: Files) -> None:
    paths = files.write({"a.yaml": MINIMAL, "b.yaml": "name: b"})
    notes = [note for note in load(paths).notes if note.startswith(SEVERAL_NAMES)]
    assert len(notes) == 1
    assert "p (" in notes[0] and "a.yaml:" in notes[0] and "b.yaml:1)" in notes[0]
    assert notes[0].endswith("layers of one pipeline, b")
    same = files.write({"a.yaml": MINIMAL, "b.yaml": "name: p"})
    assert not [note for note in load(same).notes if note.startswith(SEVERAL_NAMES)]


MAPPER = "name: m\ngroups: {consumerGroups: a}\n"
NAMELESS = MINIMAL.replace("name: p\n", "")


@pytest.mark.parametrize(
    ("texts", "name", "unused"),
    [
        ((MINIMAL, MAPPER), "p", "m"),
        ((MAPPER, MINIMAL), "p", "m"),
        ((MINIMAL, "name: m\noffsetMapping: {topic: t}"), "p", "m"),
        ((MINIMAL, OFFSET_MAPPING_APPLICATION), "p", "offset-mapping-production"),
        ((OFFSET_MAPPING_APPLICATION, MINIMAL), "p", "offset-mapping-production"),
        # The pipeline's name may be in another layer than its replication section.
        (("name: p", NAMELESS, MAPPER), "p", "m"),
        # The only name is the pipeline's.
        ((NAMELESS, MAPPER), "m", ""),
        # A layer that is not the mapping application's overrides the name.
        ((MINIMAL, MAPPER, "name: q"), "q", "m"),
        ((MINIMAL, "name: q\ngroups:\noffsetMapping:\n"), "q", ""),
    ],
)
def test_the_layer_with_replication_names_the_pipeline(
    files: Files, texts: tuple[str, ...], name: str, unused: str
) -> None:
    """The mapping application's own name has no effect above or below a replicator's file."""
    loaded = load(files.write({f"{n}.yaml": text for n, text in enumerate(texts)}))
    assert loaded.config.name == name == loaded.config.coordination.commit.group
    notes = [note for note in loaded.notes if note.startswith(SEVERAL_NAMES)]
    ending = f"; {unused} names the mapping application and has no effect"
    assert [note.endswith(ending) for note in notes if "mapping application" in note] == (
        [True] if unused else []
    )


def test_without_replication_the_last_name_is_the_mapping_applications(files: Files) -> None:
    paths = files.write({"a.yaml": OFFSET_MAPPING_APPLICATION, "b.yaml": MAPPER})
    assert load(paths, need_replication=False).config.name == "m"
