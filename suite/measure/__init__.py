"""Timing: the clock, warm-up, the schedule of blocks. Torch is never imported here; callables come in ready."""
