"""Transforms on Spark: read a micro-batch, change it by SQL, write it, in one stage of a job."""
