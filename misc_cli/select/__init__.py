"""Choosing without ground truth: hide answers, forecast them, keep what forecasts best.

holdout    which answers are hidden, and how a forecast of them is scored
trial      one method on one fold: fit, forecast, score
processes  trials on all cores, within a time budget
choose     scores → a choice (pure arithmetic)
calibrate  scores at several temperatures → confidences that mean something
search     the whole of it: labels and settings in, a fitted result and its reasons out
"""
