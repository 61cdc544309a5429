"""Partition logs as bytes: batches, records, rebuilding, fetching and comparing; no Spark."""
