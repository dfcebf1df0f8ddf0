"""Build of the running kernel: its configuration, and the version of its source."""

from __future__ import annotations

import gzip
import os
import re

_OWN = "/proc/config.gz"
_SIGNATURE = "/proc/version_signature"
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?", re.ASCII)


def read_config() -> tuple[int, str | None]:
    """LINUX_VERSION_CODE, and the configuration's text: of /proc/config.gz or /boot/config-RELEASE, None without."""
    name = os.uname()
    return version_code(name.release, name.version, _signature()), _text(name.release)


def version_code(release: str, version: str, signature: str = "") -> int:
    """The version of the kernel's source as LINUX_VERSION_CODE has it.

    `release` and `version` are uname's. Debian's release (6.1.0-37-amd64) hides the patch level, which its version has
    ("#1 SMP Debian 6.1.140-1"); so does Ubuntu's, whose /proc/version_signature ends with it.
    """
    written = re.search(r"Debian (\d\S*)", version)
    text = written[1] if written else signature.rsplit(maxsplit=1)[-1] if signature.strip() else release
    found = _VERSION.match(text) or _VERSION.match(release)
    major, minor, patch = (int(part or 0) for part in found.groups()) if found else (0, 0, 0)
    return major << 16 | minor << 8 | min(patch, 255)


def _signature() -> str:
    try:
        with open(_SIGNATURE, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def _text(release: str) -> str | None:
    try:
        with gzip.open(_OWN, "rt", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        pass
    try:
        with open(f"/boot/config-{release}", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None
