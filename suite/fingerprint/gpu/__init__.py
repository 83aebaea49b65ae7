"""GPUs through NVML, and recordings of it."""
