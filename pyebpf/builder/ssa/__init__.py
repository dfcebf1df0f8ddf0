"""SSA form: functions of IR built by structured control flow, and what is known at each point; no types."""
