"""Jobs: pipelines that run detached on this host; how they are started, found and stopped.

A job is one process in its own session without a terminal: it outlives the console, the ssh
connection and the shell that started it. Its state is in a private directory of the user: a
record, a lock and a bounded log of JSON lines. The process holds the lock for its lifetime, so a
pipeline runs at most once per host; fencing separates drivers on several hosts.
"""
