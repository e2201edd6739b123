"""mmce-c and mmce-o: the rounds in fit.py, their steps in steps.py, Newton in newton.py."""
