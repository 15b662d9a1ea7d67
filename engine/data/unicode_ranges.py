# unicode_ranges.py -- writes unicode_ranges.h: the general category of every character, as runs
#
#   python3 engine/data/unicode_ranges.py > engine/data/unicode_ranges.h
import unicodedata

names = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split()
runs, last = [], None
for code in range(0x110000):
    category = names.index(unicodedata.category(chr(code)))
    if category != last:
        runs.append("%#x" % (code << 5 | category))
        last = category
print("// unicode_ranges.h -- general categories of Unicode %s: runs, first character << 5 | category"
      % unicodedata.unidata_version)
print("// by unicode_ranges.py")
print("#pragma once\n#include <cstdint>\n\nnamespace mt {\n")
print("constexpr const char* const kCategories[] = {")
for i in range(0, 30, 10):
    print("    " + " ".join('"%s",' % n for n in names[i:i + 10]))
print("};\n\n// clang-format off\nconstexpr uint32_t kCategoryRuns[] = {")
line = ""
for run in runs:
    if len(line) + len(run) + 1 > 118:
        print(line)
        line = ""
    line += run + ","
print(line + "\n};\n// clang-format on\n\n}  // namespace mt")
