"""Partition logs as bytes: batches, records, rebuilding, fetching, comparing; knows nothing of Spark."""
