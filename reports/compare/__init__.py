"""Several bundles on one page: what may be compared, and what comes out. Pure, besides reading."""
