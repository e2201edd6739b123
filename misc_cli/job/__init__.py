"""Carry out a request: read inputs, fit questions, judge and publish outputs."""
