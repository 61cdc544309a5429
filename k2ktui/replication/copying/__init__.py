"""The hot path, run in Spark tasks: reads batches, writes them, records where they landed."""
