"""Where blocks of votes and their rows live, and who walks them: one protocol, several engines."""
