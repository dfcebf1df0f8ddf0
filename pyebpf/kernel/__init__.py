"""System calls and kernel files: the only place that uses ctypes, mmap, fcntl and ioctl.

Functions here raise plain `OSError`; `pyebpf.kernel.diagnosis` turns one into the error that names what is missing.
"""
