"""Read answers and known labels from files; write outputs whole or not at all."""
