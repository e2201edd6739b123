"""The paper's datasets, table and experiments."""
