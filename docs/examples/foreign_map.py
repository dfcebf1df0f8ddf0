"""Print a map that another program pinned, whose keys and values are structs: `foreign_map.py PATH`."""

import sys

from pyebpf import open_map

if len(sys.argv) != 2:
    sys.exit("usage: foreign_map.py PATH")
with open_map(sys.argv[1]) as table:
    for key, value in table.items():
        print(key.as_dict(), "->", value.as_dict())
    print([member.name for member in table.value_type.construct.subcons if member.name])
