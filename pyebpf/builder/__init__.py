"""The only way to make IR: typed values and structured control flow."""
