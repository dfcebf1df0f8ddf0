"""bpftrace's language as a second front end: text of a script in, the builder's calls out."""
