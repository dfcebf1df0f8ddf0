"""Attach points as frozen data: one class a kind of attachment, one file a family."""
