// unicode.cpp -- code points of UTF-8 text and their categories
#include "engine/text/unicode.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "engine/text/unicode_ranges.h"

namespace mt {

uint32_t next_character(const char*& p, const char* end) {
  const auto byte = uint8_t(*p);
  if (byte < 0x80) return ++p, byte;
  const int continuations = byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : 1;
  uint32_t c = byte & (0x3fu >> continuations);
  bool valid = byte >= 0xc2 && byte <= 0xf4 && end - p > continuations;
  for (int i = 1; valid && i <= continuations; ++i) {
    const auto next = uint8_t(p[i]);
    valid = (next & 0xc0) == 0x80;
    c = c << 6 | (next & 0x3f);
  }
  constexpr uint32_t kMinCodePoint[] = {0, 0x80, 0x800, 0x10000};
  if (!valid || c < kMinCodePoint[continuations] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
    return ++p, 0x110000 + byte;
  return p += continuations + 1, c;
}

const char* previous_character(const char* p, const char* begin) {
  for (int back = 1; back <= 4 && p - back >= begin; ++back) {
    if ((uint8_t(p[-back]) & 0xc0) == 0x80) continue;
    const char* at = p - back;
    next_character(at, p);
    if (at == p) return p - back;
    break;
  }
  return p - 1;
}

void append_utf8(std::string& text, uint32_t c) {
  const auto put = [&](uint32_t byte) { text.push_back(char(byte)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) return put(0xc0 | c >> 6), put(0x80 | (c & 0x3f));
  if (c < 0x10000) return put(0xe0 | c >> 12), put(0x80 | (c >> 6 & 0x3f)), put(0x80 | (c & 0x3f));
  put(0xf0 | c >> 18), put(0x80 | (c >> 12 & 0x3f)), put(0x80 | (c >> 6 & 0x3f)),
      put(0x80 | (c & 0x3f));
}

/// The runs of characters of equal category: the first character << 5 | the category.
static std::vector<uint32_t> category_runs() {
  std::vector<uint32_t> runs;
  uint32_t first = 0;
  for (const char* p = kCategoryRuns; *p;) {
    const char letter = *p++;
    runs.push_back(first << 5 | uint32_t(letter >= 'a' ? letter - 'a' : letter - 'A' + 26));
    uint32_t count = 0;
    for (; *p >= '0' && *p <= '9'; ++p) count = 10 * count + uint32_t(*p - '0');
    first += std::max(count, 1u);
  }
  return runs;
}

static uint32_t search_category(uint32_t c) {
  static const std::vector<uint32_t>& runs = *new std::vector(category_runs());
  return uint32_t(1) << (std::ranges::upper_bound(runs, c << 5 | 31)[-1] & 31);
}

uint32_t category_bit(uint32_t c) {
  static const auto ascii = [] {
    std::array<uint32_t, 128> bits;
    for (uint32_t i = 0; i < 128; ++i) bits[i] = search_category(i);
    return bits;
  }();
  if (c < 128) return ascii[c];
  return c < 0x110000 ? search_category(c) : uint32_t(1) << 29;  // Cn
}

bool is_utf8(std::string_view text) {
  for (const char *p = text.data(), *end = p + text.size(); p < end;)
    if (next_character(p, end) >= 0x110000) return false;
  return true;
}

uint32_t word_mask() {
  static const uint32_t mask = category_mask("L") | category_mask("M") | category_mask("Nd") |
                               category_mask("Nl") | category_mask("Pc");
  return mask;
}

uint32_t category_mask(std::string_view name) {
  uint32_t mask = 0;
  for (size_t i = 0; i < std::size(kCategories); ++i)
    if (name == kCategories[i] || (name.size() == 1 && name[0] == kCategories[i][0]))
      mask |= uint32_t(1) << i;
  return mask;
}

}  // namespace mt
