"""Numbers and layouts of Linux's user interface to BPF, perf events and the rest, generated from facts.

Nothing is imported here: take the module that has what is needed.
"""
