"""Tests, laid out as the package is."""

import os

# One BLAS thread, as `misc` itself sets it: many threads on many small products only wait for each
# other. Here, because this module is imported before anything loads numpy.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
