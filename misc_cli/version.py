"""Version numbers, in a module of their own that imports nothing."""

__version__ = "0.1.0"

# Of every --json: raised when something that a script may read changes its meaning.
SCHEMA = 1
