"""Pages of running tools: messages, pictures that grow, and a server on loopback. Nothing here knows a kernel."""
