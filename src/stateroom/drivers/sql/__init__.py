"""What the SQL drivers of long-term memory share."""
