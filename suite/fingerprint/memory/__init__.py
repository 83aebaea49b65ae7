"""Memory: sizes and nodes, modules, page sizes, tiers."""
