"""Judge answers, workers and labels: agreement, error, verdicts, duplicates, what to ask again."""
