"""Launch: the machine's topology, the run-time libraries, and the command and environment a worker is started with."""
