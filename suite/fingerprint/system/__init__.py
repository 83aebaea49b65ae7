"""The operating system, kernel and board; load; the hypervisor."""
