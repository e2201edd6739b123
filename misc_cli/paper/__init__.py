"""The paper's datasets and its table, run again."""
