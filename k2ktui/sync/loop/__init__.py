"""The sync application: translate and commit in every poll."""
