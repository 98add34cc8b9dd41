#!/usr/bin/env python3
"""Writes src/text/unicode_ranges.h: tools/unicode_ranges.py >src/text/unicode_ranges.h

The ranges of letters by their case, marks, numbers and white space of one version of Unicode. The
categories come from the module unicodedata2 of that version, or from Python's own unicodedata if it has it;
White_Space is a property that neither knows, and short enough to be written down here. Run it again
only to move to another version of Unicode: the same text then has other tokens."""
import sys

try:
    import unicodedata2 as unicodedata
except ImportError:
    import unicodedata

VERSION = "16.0.0"
WHITE_SPACE = [(0x9, 0xD), (0x20, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680),
               (0x2000, 0x200A), (0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F),
               (0x3000, 0x3000)]


def ranges(*categories):
    """Of characters one or two apart: where capitals and small letters alternate, two."""
    found = []
    for character in range(0x110000):
        if unicodedata.category(chr(character)) in categories:
            first, last, step = found[-1] if found else (None, None, None)
            if found and first == last and character - last <= 2:
                found[-1] = (first, character, character - last)
            elif found and first < last and character - last == step:
                found[-1] = (first, character, step)
            else:
                found.append((character, character, 1))
    return found


def emit(name, rows):
    print(f"\nstatic const UnicodeRange {name}[] = {{")
    line = "   "
    for first, last, step in rows:
        item = f" {{0x{first:x}, 0x{last:x}, {step}}},"
        if len(line) + len(item) > 100:
            print(line)
            line = "   "
        line += item
    print(line)
    print("};")


if unicodedata.unidata_version != VERSION:
    sys.exit(f"Unicode {VERSION} is wanted, this is {unicodedata.unidata_version}: "
             f"install unicodedata2=={VERSION}")
print(f"""#pragma once
/* Written by tools/unicode_ranges.py from Unicode {VERSION}; not to be edited. */
#include <stdint.h>

/* Ascending ranges of characters, both ends included: every one, or every second. */
typedef struct {{
    uint32_t first, last, step;
}} UnicodeRange;

/* clang-format off */""")
emit("unicode_upper", ranges("Lu", "Lt"))
emit("unicode_lower", ranges("Ll"))
emit("unicode_letters", ranges("Lm", "Lo"))
emit("unicode_marks", ranges("Mn", "Mc", "Me"))
emit("unicode_numbers", ranges("Nd", "Nl", "No"))
emit("unicode_spaces", [(first, last, 1) for first, last in WHITE_SPACE])
