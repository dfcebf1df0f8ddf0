"""DWARF debugging information, versions 2 to 5: source lines, inlined calls, and what functions take."""
