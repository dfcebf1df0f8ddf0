"""The decorators of probes: one class a family of attachments, all inherited by `Module`."""
