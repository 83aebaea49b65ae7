"""Passes that look inside a case. They run in processes of their own, never in timed code."""
