"""Engines that store votes and rows of items and run kernels over them: memory, disk, Dask."""
