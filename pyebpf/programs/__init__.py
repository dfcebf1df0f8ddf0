"""The tools: one file each, declaring options, probes and columns through the public API.

Licensed under Apache-2.0 OR GPL-2.0-only, since their probes tell the kernel "GPL" to use its GPL-only helpers.
"""
