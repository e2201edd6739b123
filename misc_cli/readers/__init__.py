"""Read answers and known labels from files, addresses and databases."""
