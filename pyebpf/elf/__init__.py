"""ELF files of any kind: headers, symbols, notes and relocations. Bytes or an open file in, records out."""
