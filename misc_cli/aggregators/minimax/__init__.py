"""Regularised minimax conditional entropy: mmce-c and mmce-o."""
