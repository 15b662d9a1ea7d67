# unicode_ranges.py -- writes unicode_ranges.h: the general category of every character, as runs
#
#   python3 engine/text/unicode_ranges.py > engine/text/unicode_ranges.h
import unicodedata
from itertools import groupby
from textwrap import wrap

names = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split()
letters = "abcdefghijklmnopqrstuvwxyzABCD"

runs = ""
for category, run in groupby(unicodedata.category(chr(code)) for code in range(0x110000)):
    count = len(list(run))
    runs += letters[names.index(category)] + (str(count) if count > 1 else "")

print("// unicode_ranges.h -- general categories of Unicode %s, by unicode_ranges.py" % unicodedata.unidata_version)
print("#pragma once\n\nnamespace mt {\n")
print("constexpr const char* const kCategories[] = {")
for i in range(0, 30, 15):
    print("    " + " ".join('"%s",' % n for n in names[i:i + 15]))
print("};\n")
print("/// The runs of equal categories from character 0 on: the category's place in kCategories, as a letter from")
print("/// 'a' to 'z' and from 'A' on, and the number of characters if it is not 1.")
print("// clang-format off\nconstexpr char kCategoryRuns[] =")
print("\n".join('"%s"' % line for line in wrap(runs, 116)) + ";\n// clang-format on\n\n}  // namespace mt")
