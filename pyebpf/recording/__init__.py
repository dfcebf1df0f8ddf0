"""Recordings of tools: their records, not yet formatted, in a file that tells what it holds (docs/recordings.md)."""
