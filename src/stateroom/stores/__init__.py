"""LangGraph stores: Items in the shape that ``BaseStore`` gives them."""
