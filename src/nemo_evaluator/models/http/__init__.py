"""Bytes on a connection: the lean HTTP client, its pool of connections, proxies on the way, and streams of events."""
