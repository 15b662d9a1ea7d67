// fuzz_regex.cpp -- patterns of tokenizers: up to a zero byte the pattern, then a text
#include "engine/text/regex.h"
#include "tests/fuzz/fuzz.h"

MT_FUZZ({
  const size_t end = std::string_view(data, size).find(char(0));
  if (end == std::string_view::npos) return;
  mt::Regex({data, end}).each_match({data + end + 1, size - end - 1}, [](std::string_view) {});
})
