"""Tests that need more than Python: a browser, a cluster, Java, a database. `make test-extras`."""
