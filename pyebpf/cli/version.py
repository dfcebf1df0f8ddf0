"""The version, where reading it costs nothing. A test compares it with the project's settings."""

from __future__ import annotations

VERSION = "0.1.0"
