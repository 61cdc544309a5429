"""Many pipelines at once: those of a directory of pipeline files, each in a row."""
