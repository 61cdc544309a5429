"""Forks Spark's Python workers that copy; see ``spark_daemon``."""

from k2ktui.replication.spark.daemon import serve

if __name__ == "__main__":
    serve("k2ktui.replication.copying.worker")
