"""Plain records and the tools that kernels share; knows no method, no file and no flag."""
