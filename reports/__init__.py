"""Speedproof's reading side: from bundles to reports. Never imports torch."""
