// bpe.cpp -- byte-pair encoding (Sennrich, Haddow, Birch 2016): merging the tokens of a text
#include "engine/text/bpe.h"

#include <array>
#include <queue>

#include "engine/text/unicode.h"

namespace mt {
namespace {

/// A token of a piece and the indices of its neighbours, -1 for none.
struct Symbol {
  int32_t token, before, after;
};
/// A candidate merge: the lowest rank is first, then the leftmost.
struct NextMerge {
  int32_t rank, at, left, right, token;
  bool operator<(const NextMerge& o) const { return rank != o.rank ? rank > o.rank : at > o.at; }
};

}  // namespace

void Merges::apply(std::vector<int32_t>& tokens) const {
  const auto n = int32_t(tokens.size());
  if (n < 2) return;
  std::vector<Symbol> symbols(tokens.size());
  std::priority_queue<NextMerge> heap;
  const auto propose = [&](int32_t at) {
    const Symbol& s = symbols[at];
    if (s.after < 0) return;
    const int32_t right = symbols[s.after].token;
    const Merge* const m = find(s.token, right);
    if (m) heap.push({m->rank, at, s.token, right, m->token});
  };
  for (int32_t i = 0; i < n; ++i) symbols[i] = {tokens[i], i - 1, i + 1 < n ? i + 1 : -1};
  for (int32_t i = 0; i < n; ++i) propose(i);
  while (!heap.empty()) {
    const NextMerge c = heap.top();
    heap.pop();
    Symbol& left = symbols[c.at];
    if (left.token != c.left || left.after < 0) continue;  // outdated by another merge
    Symbol& right = symbols[left.after];
    if (right.token != c.right) continue;
    left.token = c.token;
    right.token = -1;
    left.after = right.after;
    if (left.after >= 0) symbols[left.after].before = c.at;
    propose(c.at);
    if (left.before >= 0) propose(left.before);
  }
  tokens.clear();
  for (int32_t i = 0; i >= 0; i = symbols[i].after) tokens.push_back(symbols[i].token);
}

const char* const kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

static uint32_t letter_code(int byte) {
  const auto is_printable = [](int b) { return (b > 32 && b < 127) || (b > 160 && b != 173); };
  if (is_printable(byte)) return uint32_t(byte);
  uint32_t code = 256;
  for (int b = 0; b < byte; ++b) code += !is_printable(b);
  return code;
}

const std::string& byte_letter(uint8_t byte) {
  static const auto letters = [] {
    std::array<std::string, 256> list;
    for (int b = 0; b < 256; ++b) append_utf8(list[b], letter_code(b));
    return list;
  }();
  return letters[byte];
}

bool bytes_of_letters(std::string_view letters, std::string& bytes) {
  static const auto codes = [] {
    std::array<int16_t, 512> list;
    list.fill(-1);
    for (int b = 0; b < 256; ++b) list[letter_code(b)] = int16_t(b);
    return list;
  }();
  bytes.clear();
  for (const char *p = letters.data(), *end = p + letters.size(); p < end;) {
    const uint32_t c = next_character(p, end);
    if (c >= codes.size() || codes[c] < 0) return false;
    bytes.push_back(char(codes[c]));
  }
  return true;
}

}  // namespace mt
