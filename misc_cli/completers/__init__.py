"""Completers of the label tensor (tucker, tenals, lrtc) and the completion loop."""
