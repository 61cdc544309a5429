"""Documented files of Lenses' applications."""

from __future__ import annotations

# The full set of options that Lenses documents for its offset mapping application.
OFFSET_MAPPING_APPLICATION = """\
name: "offset-mapping-production"
license:
  token: "<your-license-token>"
  acceptEula: true
features:
  autoCreateControlTopics: enabled
  applyMappingsGuard: enabled
source:
  kafka:
    common:
      "bootstrap.servers": "source-kafka:9092"
    admin:
target:
  kafka:
    common:
      "bootstrap.servers": "target-kafka:9093"
    consumer:
    producer:
    admin:
groups:
  pollInterval: "5 seconds"
  consumerGroups: "^my-app-.*"
  offsetGuardPrefix: "k2k_"
offsetMapping:
  topic: "__k2k_offset_mappings"
  retention:
    time: "topic"
    count: 1000
    schedule: "5 minutes"
metrics:
  prefix:
    targetConsumer: "k2k.offsetmapping.consumer.control."
    targetProducer: "k2k.offsetmapping.producer."
    offsetMappingApp: "k2k.offsetmapping."
  kafka:
    topic: "__k2k_metrics"
topicCreation:
  control:
    common:
      partitions: 3
      replication: 3
      config:
        "min.insync.replicas": "2"
    offsetMapping:
      partitions: 6
      replication: 3
      config:
        "cleanup.policy": "delete"
        "retention.ms": "604800000"
    metrics:
      partitions: 3
      config:
        "retention.ms": "2592000000"
configuration:
  autoControlTopicCreationCheckDelay: "750 milliseconds"
  autoControlTopicCreationMaxAttempts: 10
errorHandling:
  onMultipleTargetCommittedOffsets: fail
  onActiveConsumerGroupCommit: fail
"""
