"""System calls and kernel files: the only place that uses ctypes, mmap, fcntl and ioctl.

Functions here raise plain `OSError`; `kernel_error` (`errors_in_words.py`) turns one into the error that names what is
missing.
"""
