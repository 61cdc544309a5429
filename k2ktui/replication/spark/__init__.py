"""The Spark session: its settings, Java process, workers and executors."""
