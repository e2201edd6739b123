"""Low-rank Tucker completion by HOSVD and HOOI."""
