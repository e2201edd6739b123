"""Completion by the nuclear norms of the three unfoldings."""
