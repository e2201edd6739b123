"""A run on an engine other than the local one: read in pieces, fit, decide, write in pieces."""
