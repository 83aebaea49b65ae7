"""What is in force in a worker: read in the worker itself, or in a rehearsal of one."""
