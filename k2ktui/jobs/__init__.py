"""Jobs: pipelines that run detached on this host, and how they are started, found and stopped.

A job is one process, in a session of its own, without a terminal: it outlives the console, the
ssh connection and the shell that started it. What is known of it lies in a directory of the user's
state, for the user alone: a record, a lock and a bounded log of JSON lines. Its process holds the
lock for as long as it lives, so one pipeline runs once on a host; what keeps drivers on several
hosts apart is fencing.
"""
