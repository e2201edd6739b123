"""mmce-c and mmce-o: regularised minimax conditional entropy."""
