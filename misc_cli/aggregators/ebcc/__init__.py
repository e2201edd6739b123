"""ebcc: the restarts in fit.py, the algebra in kernels.py."""
