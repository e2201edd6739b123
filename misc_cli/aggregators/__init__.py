"""Methods that turn votes into posteriors: one file or folder each."""
