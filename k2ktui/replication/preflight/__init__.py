"""What is checked before a pipeline runs: each line pass, fail or could-not-check."""
