// fuzz_regex.cpp -- patterns of tokenizers: up to a zero byte the pattern, then a text
#include "engine/text/regex.h"
#include "tests/fuzz/fuzz.h"

MT_FUZZ({
  const size_t end = std::string_view(data, size).find(char(0));
  if (end == std::string_view::npos) return;
  const mt::Regex pattern({data, end});
  const char *const begin = data + end + 1, *const last = data + size;
  for (const char* p = begin; p < last; ++p) pattern.match(p, begin, last);
})
