"""What one run leaves for the next: the folder of `--state`, and a run that builds on it."""
