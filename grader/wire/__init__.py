"""The proxy between one process and the API server."""
