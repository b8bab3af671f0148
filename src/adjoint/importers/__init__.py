"""Models of other frameworks as modules, and their weights."""
