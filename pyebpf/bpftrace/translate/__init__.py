"""From a script's tree to the builder's calls."""
