"""What is checked before a pipeline runs: each line pass, fail, warning or could-not-check."""
