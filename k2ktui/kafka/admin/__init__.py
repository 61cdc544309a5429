"""What is read and changed of a cluster: topics, ACLs, quotas, settings, transactions."""
