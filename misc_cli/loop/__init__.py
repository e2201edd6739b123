"""Algorithm 3 of MiSC: the complete ⇄ slice loop, its settings and its last step."""
