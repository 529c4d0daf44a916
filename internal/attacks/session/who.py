"""Who the code is: the number of its user, and its user namespace."""
notes.append(str(os.getuid()))
notes.append(os.readlink("/proc/self/ns/user") if os.path.lexists("/proc/self/ns/user") else "")
