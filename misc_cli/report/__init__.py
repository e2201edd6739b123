"""A run to look at: its statistics as data frames, one self-contained page, one workbook."""
