"""Benchmark: MirrorMaker 2 and k2ktui in turn, on the same brokers and the same data.

Run as ``python -m bench`` from a checkout. What is measured, and how, is written into RESULTS.md by
:mod:`bench.report`; the raw figures go to results.json.
"""
