"""The one place where drivers, services and the HTTP side are joined into a server."""
