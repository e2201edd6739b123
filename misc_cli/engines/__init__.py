"""Where votes and rows of items live, and who walks them: memory, disk, Dask."""
