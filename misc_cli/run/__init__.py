"""One run: request, settings, pipeline, result, tables and run record."""
