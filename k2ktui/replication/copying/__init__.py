"""The hot path, run inside Spark tasks: read batches, write them, say where they landed."""
