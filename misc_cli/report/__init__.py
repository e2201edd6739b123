"""Reports of a run: data frames, sentences, one self-contained page, one workbook."""
