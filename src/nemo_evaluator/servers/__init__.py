"""Server processes that nel starts: the launch plan, the health check, the watch for crashes, and the end."""
