"""The product's own benchmarks: ratios of things measured side by side in one run, never absolute times."""
