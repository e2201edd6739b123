"""Enhanced Bayesian classifier combination: subtypes let workers err together."""
