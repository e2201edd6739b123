"""Write the files of a run as one set, whole or not at all, and read them back."""
