"""Fill and smooth the label tensor: tucker, tenals and lrtc."""
