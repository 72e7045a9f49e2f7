"""Keys: files encrypted at rest (`encryption`), and files that somebody vouches for (`signing`).

Libraries do the cryptography; here stands what they are used for. Not here: what the files are, and
who may ask a server for what (`runtime.serving.access`).
"""
