"""Variables that outlive their kernel: its end writes them to a file, and the next one reads that before its first run.

values.py decides how a value is kept, reducers.py for objects of some libraries, modules.py for modules; around.py does it for
settings and the like. losses.py has the reasons why something is not kept. write.py and read.py are the two ways, and pieces.py is
the file between them. docs/kernel-protocol.md, "Variables that are kept".
"""
