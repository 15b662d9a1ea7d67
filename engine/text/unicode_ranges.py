# unicode_ranges.py -- writes unicode_ranges.h: the general category of every character, as runs; alternating
# upper and lower case letters are one run
#
#   python3 engine/text/unicode_ranges.py > engine/text/unicode_ranges.h
import unicodedata

names = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split()
categories = [names.index(unicodedata.category(chr(code))) for code in range(0x110000)]
turns = len(names)  # and turns + 1: Lu at even and at odd codes, Ll between them


def run_of(code, holds):
    end = code
    while end < len(categories) and holds(end):
        end += 1
    return end


runs, code = [], 0
while code < len(categories):
    kind, end = categories[code], run_of(code, lambda at: categories[at] == categories[code])
    for odd in 0, 1:
        last = run_of(code, lambda at: categories[at] == (at & 1) ^ odd)
        if last - code > 2:
            kind, end = turns + odd, last
    runs.append("%#x" % (code << 5 | kind))
    code = end
print("// unicode_ranges.h -- general categories of Unicode %s: runs, first character << 5 | category"
      % unicodedata.unidata_version)
print("// (index in kCategories, or kTurns: Lu at even codes and Ll at odd ones, kTurns + 1: Ll and Lu)")
print("// by unicode_ranges.py")
print("#pragma once\n#include <cstdint>\n\nnamespace mt {\n")
print("constexpr const char* const kCategories[] = {")
for i in range(0, 30, 10):
    print("    " + " ".join('"%s",' % n for n in names[i:i + 10]))
print("};\nconstexpr uint32_t kTurns = %d;\n\n// clang-format off\nconstexpr uint32_t kCategoryRuns[] = {" % turns)
line = ""
for run in runs:
    if len(line) + len(run) + 1 > 118:
        print(line)
        line = ""
    line += run + ","
print(line + "\n};\n// clang-format on\n\n}  // namespace mt")
