"""How a file lays out its answers: long, wide, form, paired columns, nested lists, matrix."""
