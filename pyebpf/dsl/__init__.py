"""Python syntax to builder calls: probes, and the modules that hold them."""
