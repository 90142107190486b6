"""The PostgreSQL driver of long-term memory."""
