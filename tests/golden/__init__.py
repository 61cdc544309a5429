"""What is on topics and on disk keeps its form, byte for byte, and is read back.

``written.json`` has the records of the release that first had this test. A change of it is a change
of a format: other programs and earlier releases read these records, see docs/record-formats.md.
"""
