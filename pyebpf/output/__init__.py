"""Output: histograms, columns, CSV, JSON lines and the stream they go to. Pure: no kernel, no root, any OS."""
