"""Intrinsics: names that stand for the kernel's functions, called inside a probe."""
