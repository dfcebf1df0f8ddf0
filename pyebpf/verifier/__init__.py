"""The verifier's log: the message in it, what that means for the author of a probe, and the line that it is about.

Pure: text and specs in, words and places out.
"""
