"""Choosing without ground truth: hide answers, forecast them, keep what forecasts best.

trial        one method on one fold: fit, forecast, score
processes    trials on all cores, within a time budget
leaderboard  candidates on all folds, as a table and in words
choose       scores → a choice (pure arithmetic)
calibrate    scores at several temperatures → confidences that mean something
search       the whole of it: labels and methods in, a fitted result and its reasons out
compare      every method side by side
"""
