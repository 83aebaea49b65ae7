"""The container: engine, control groups, mounts, privileges, and this process's own limits."""
