"""The profiling walkthrough's questions, asked of a machine's own recordings of matmul_add."""
