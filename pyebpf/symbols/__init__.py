"""From addresses to names: the kernel's symbols, ELF files, and the mappings of processes."""
