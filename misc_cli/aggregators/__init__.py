"""Methods that turn votes into posteriors."""
