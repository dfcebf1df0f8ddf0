"""Specifications of bcc's argdist and trace, turned into scripts of bpftrace's language."""
