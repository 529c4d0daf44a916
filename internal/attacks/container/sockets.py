"""Only TCP, UDP, Unix and route sockets can be made; nothing raw, and no module is loaded.

Tried: raw and packet sockets, vsock, crypto, SCTP, DCCP, MPTCP, Bluetooth, netlink and more.
"""
import socket

RAW, PACKET, SEQPACKET = socket.SOCK_RAW, 17, socket.SOCK_SEQPACKET
had = []
for family, kind, protocol in [
    (socket.AF_INET, RAW, 1), (socket.AF_INET, RAW, 255), (socket.AF_INET6, RAW, 58),
    (PACKET, RAW, 0), (PACKET, socket.SOCK_DGRAM, 0),
    (socket.AF_INET, socket.SOCK_STREAM, 132), (socket.AF_INET, SEQPACKET, 132),  # SCTP
    (socket.AF_INET, 6, 33), (socket.AF_INET, socket.SOCK_STREAM, 262),  # DCCP, MPTCP
    (socket.AF_INET, socket.SOCK_DGRAM, 136), (socket.AF_INET, socket.SOCK_DGRAM, 1),  # UDP-Lite, ping
    (38, SEQPACKET, 0), (40, socket.SOCK_STREAM, 0), (30, socket.SOCK_DGRAM, 0),  # AF_ALG, VSOCK, TIPC
    (15, RAW, 2), (21, SEQPACKET, 0), (29, RAW, 1), (31, RAW, 1), (41, socket.SOCK_DGRAM, 0), (44, RAW, 0),
    (16, RAW, 9), (16, RAW, 4), (16, RAW, 12), (16, RAW, 16),  # netlink: audit, diag, netfilter, generic
]:
    if POD and not POD["seccomp"] and (kind != RAW or family == 16):
        try:
            socket.socket(family, kind, protocol).close()
            had.append((family, int(kind), protocol))
        except OSError as err:
            refusals[errno.errorcode[err.errno]] += 1
        continue
    refused(lambda: socket.socket(family, kind, protocol))
if had:
    raise Unenforced(f"the container runtime's default list lets sockets be made of family, type and protocol {', '.join(map(str, had))}")

# A comparison of all 64 bits would take this for another family.
libc.socket.argtypes = [ctypes.c_long] * 3
for family in (1 << 32 | 17, 1 << 32 | 38):
    assert libc.syscall(ctypes.c_long(41 if MACHINE == 0 else 198), ctypes.c_long(family), ctypes.c_long(3), ctypes.c_long(0)) == -1
