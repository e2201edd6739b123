"""Thousands of runs under signals, faults and damage: docs/reliability.md, `make torture`."""
