"""The processor: model and flags, caches, clocks, idle states, micro-architecture."""
