"""What program contexts of several families share."""
