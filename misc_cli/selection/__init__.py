"""Choose methods without ground truth: cross-validation, ensemble, calibration.

trial        one method on one fold: fit, forecast, score
processes    trials on all cores, within a time budget
judging      the folds, and everything that is tried on them
leaderboard  candidates on all folds, as a table and in words
choose       the null, leads over it, their shares: scores → a choice (pure arithmetic)
calibrate    hidden answers → confidences that mean something
search       the whole of it: labels and methods in, a fitted result and its reasons out
compare      every method side by side
"""
