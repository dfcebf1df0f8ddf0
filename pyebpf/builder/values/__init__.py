"""Values of the language, by kind: read, written, computed with and compared."""
