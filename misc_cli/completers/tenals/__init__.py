"""tenals: CP by alternating least squares on the observed entries."""
