"""One run from settings to outcome: registry, plan, pipeline, and the records of what happened."""
