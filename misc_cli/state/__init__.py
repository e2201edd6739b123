"""State between runs: the folder of `--state`, and runs that start from it."""
