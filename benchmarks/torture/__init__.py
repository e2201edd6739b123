"""Hostile days of the tool, many thousand of them: see docs/reliability.md and `make torture`."""
