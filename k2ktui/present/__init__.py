"""What text output and screens share; it draws nothing and imports neither Textual nor click.

- ``formatting``: the format of numbers, durations, times and shares; cells and their tones.
- ``columns``: a column of a table, in a terminal and on a screen.
- ``partitions``, ``groups``, ``plans``, ``positions``, ``runs``, ``audits``: columns and summaries.
- ``view_lines``: a view as lines of text.
"""
