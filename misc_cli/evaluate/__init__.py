"""Judge labels: error, calibration, confusion."""
