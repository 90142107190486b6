"""HTTP as ``langgraph_sdk`` expects it."""
