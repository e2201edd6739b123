"""ebcc: enhanced Bayesian classifier combination. Subtypes let workers err together."""
