"""Schemas of requests that kafka-python lacks, as in Apache Kafka 4.3's own message definitions."""
