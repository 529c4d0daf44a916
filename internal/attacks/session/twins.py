"""No copy of a session's kernel lives when the session is closed.

Tried: a kernel with copies, whose processes have a name of their own, in a session that is closed.
"""
PR_SET_NAME = 15
assert libc.prctl(PR_SET_NAME, FACTS["token"][-15:].encode(), 0, 0, 0) == 0
