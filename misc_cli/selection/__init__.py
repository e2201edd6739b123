"""Choose methods without ground truth: cross-validation, ensemble, calibration."""
