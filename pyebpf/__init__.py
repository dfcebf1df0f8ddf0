"""pyebpf: eBPF programs written in Python."""
