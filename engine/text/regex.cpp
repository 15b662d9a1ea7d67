// regex.cpp -- the regular expressions of tokenizers: a backtracking matcher
#include "engine/text/regex.h"

#include <algorithm>
#include <climits>

#include "engine/core/error.h"
#include "engine/text/unicode.h"

namespace mt {
namespace {

constexpr int kMaxCopies = 1000, kMaxDepth = 100;

uint32_t spaces() {
  static const uint32_t mask = category_mask("Z");
  return mask;
}

}  // namespace

bool Regex::Class::Item::holds(uint32_t c, uint32_t category) const {
  return ((categories & category) != 0 || (first <= c && c <= last)) != negated;
}

bool Regex::Class::holds(uint32_t c) const {
  if (c < 128) return ascii[c >> 6] >> (c & 63) & 1;
  const auto has = [c, bit = category_bit(c)](const Item& i) { return i.holds(c, bit); };
  return std::ranges::any_of(items, has) != negated;
}

void Regex::Class::add(const Item& i) {
  items.push_back(i);
  for (uint32_t c = 0; c < 128; ++c)
    if (i.holds(c, category_bit(c))) ascii[c >> 6] |= uint64_t(1) << (c & 63);
}

void Regex::Class::close() {
  if (negated) ascii[0] = ~ascii[0], ascii[1] = ~ascii[1];
}

/// A recursive-descent parser that emits the program directly.
struct RegexParser {
  using Class = Regex::Class;
  using Item = Class::Item;
  using Op = Regex::Op;

  Regex& regex;
  const char *at, *begin, *end;
  bool ignores_case = false;
  int depth = 0;

  [[noreturn]] void reject(const char* what) const {
    fail("the pattern has {} at character {}", what, at - begin + 1);
  }
  bool accept(std::string_view word) {
    if (std::string_view(at, end - at).substr(0, word.size()) != word) return false;
    at += word.size();
    return true;
  }
  bool peek(char c) const { return at < end && *at == c; }
  size_t emit(Op op) {
    if (regex.program_.size() > 100000) reject("too many parts");
    regex.program_.push_back({op});
    return regex.program_.size() - 1;
  }
  int next_pc() const { return int(regex.program_.size()); }

  void alternatives() {
    if (++depth > kMaxDepth) reject("too many groups inside one another");
    std::vector<size_t> jumps;
    for (;;) {
      const size_t split = emit(Op::split);
      regex.program_[split].x = next_pc();
      sequence();
      const bool more = accept("|");
      if (more) jumps.push_back(emit(Op::jump));
      regex.program_[split].y = more ? next_pc() : -1;  // -1: there is no alternative
      if (!more) break;
    }
    for (const size_t j : jumps) regex.program_[j].x = next_pc();
    --depth;
  }
  void sequence() {
    while (at < end && *at != '|' && *at != ')') item();
  }
  void item() {
    if (peek('(')) return group();
    Class characters;
    if (peek('[')) bracket(characters);
    else single(characters);
    characters.close();
    regex.classes_.push_back(characters);
    const size_t run = emit(Op::run);
    regex.program_[run].x = int(regex.classes_.size()) - 1;
    int least = 1, most = 1;
    if (quantifier(least, most)) regex.program_[run].possessive = accept("+");
    if (peek('?') || peek('*')) reject("a lazy or doubled quantifier");
    regex.program_[run].least = least, regex.program_[run].most = most;
  }

  bool quantifier(int& least, int& most) {
    if (accept("?")) return least = 0, most = 1, true;
    if (accept("*")) return least = 0, most = INT_MAX, true;
    if (accept("+")) return least = 1, most = INT_MAX, true;
    if (!accept("{")) return false;
    least = number();
    most = !accept(",") ? least : peek('}') ? INT_MAX : number();
    if (!accept("}") || most < least) reject("an invalid {n,m}");
    return true;
  }
  int number() {
    int n = 0;
    if (at == end || *at < '0' || *at > '9') reject("a missing number");
    for (; at < end && *at >= '0' && *at <= '9'; ++at)
      if ((n = 10 * n + *at - '0') > kMaxCopies) reject("too large a number");
    return n;
  }

  void group() {
    ++at;
    const bool before = ignores_case;
    bool look = false, negative = false;
    if (accept("?i:")) ignores_case = true;
    else if (accept("?=")) look = true;
    else if (accept("?!")) look = negative = true;
    else if (!accept("?:") && peek('?')) reject("an unknown group");
    const size_t first = emit(look ? Op::look : Op::split);
    regex.program_[first].negative = negative;
    regex.program_[first].x = next_pc();
    alternatives();
    if (!accept(")")) reject("a group that is not closed");
    ignores_case = before;
    if (look) {
      emit(Op::match);
      regex.program_[first].x = next_pc();
      return;
    }
    regex.program_[first].y = -1;
    int least = 1, most = 1;
    if (!quantifier(least, most)) return;
    if (least > 1 || (most != 1 && most != INT_MAX)) reject("a group with {n,m}");
    if (peek('+') || peek('?') || peek('*')) reject("a doubled quantifier");
    if (most == INT_MAX) {
      const size_t again = emit(least == 0 ? Op::jump : Op::split);
      regex.program_[again].x = int(first);
      if (least == 1) regex.program_[again].y = next_pc();
    }
    if (least == 0) regex.program_[first].y = next_pc();
  }

  void bracket(Class& c) {
    ++at;
    c.negated = accept("^");
    bool first = true;
    for (; first || !peek(']'); first = false) {
      if (at == end) reject("a class that is not closed");
      if (peek('[') || accept("&&")) reject("a class inside a class");
      uint32_t low = 0, high = 0;
      if (!element(c, low)) continue;
      high = low;
      if (at + 1 < end && *at == '-' && at[1] != ']') {
        ++at;
        Class other;
        if (element(other, high) == false || high < low) reject("an invalid range");
      }
      add_range(c, low, high);
    }
    ++at;
  }
  void single(Class& c) {
    if (at < end && (*at == '*' || *at == '+' || *at == '?' || *at == '{'))
      reject("nothing to repeat");
    if (peek('^') || peek('$')) reject("an anchor");
    if (accept(".")) {
      c.add({0, '\n', '\n', true});
      return;
    }
    uint32_t low = 0;
    if (element(c, low)) add_range(c, low, low);
  }
  void add_range(Class& c, uint32_t low, uint32_t high) const {
    c.add({0, low, high, false});
    if (!ignores_case) return;
    for (uint32_t x = low; x <= high && x < 128; ++x) {
      const uint32_t lower = x | 0x20;
      if (lower >= 'a' && lower <= 'z') c.add({0, x ^ 0x20, x ^ 0x20, false});
    }
  }

  /// Parses a character, or a class, which is added to c; returns whether it was a character.
  bool element(Class& c, uint32_t& character) {
    if (at == end) reject("a missing character");
    if (*at != '\\') return character = next_character(at, end), true;
    if (++at == end) reject("an escape without a character");
    const char e = *at++;
    constexpr std::string_view kNames = "nrtfv0", kValues("\n\r\t\f\v\0", 6);
    if (const size_t k = kNames.find(e); k != kNames.npos)
      return character = uint8_t(kValues[k]), true;
    switch (e) {
      case 's': return add_spaces(c, false), false;
      case 'S': return add_spaces(c, true), false;
      case 'd':
      case 'D': return c.add({category_mask("Nd"), 1, 0, e == 'D'}), false;
      case 'w':
      case 'W': return c.add({word_mask(), 1, 0, e == 'W'}), false;
      case 'p':
      case 'P': return category(c, e == 'P'), false;
      case 'x':
      case 'u': return character = code(e), true;
      default: break;
    }
    if ((e >= '0' && e <= '9') || (e >= 'a' && e <= 'z') || (e >= 'A' && e <= 'Z')) {
      --at;
      reject("an unknown escape");
    }
    --at;
    return character = next_character(at, end), true;
  }
  void add_spaces(Class& c, bool negated) const {
    // White_Space consists of Z, U+0009 to U+000D, and U+0085.
    if (!negated) {
      c.add({spaces(), 9, 13, false});
      c.add({0, 0x85, 0x85, false});
    } else {
      c.add({~spaces() & ~category_mask("Cc"), 1, 0, false});
      c.add({0, 0, 8, false}), c.add({0, 14, 31, false}), c.add({0, 0x7f, 0x84, false});
      c.add({0, 0x86, 0x9f, false});
    }
  }
  void category(Class& c, bool negated) {
    std::string_view name;
    if (accept("{")) {
      if (accept("^")) negated = !negated;
      const char* const first = at;
      while (at < end && *at != '}') ++at;
      name = {first, size_t(at - first)};
      if (!accept("}")) reject("\\p{ without }");
    } else if (at < end) {
      name = {at++, 1};
    }
    const uint32_t mask = category_mask(name);
    if (!mask) reject("an unknown category");
    c.add({mask, 1, 0, negated});
  }
  uint32_t code(char kind) {
    const bool braces = accept("{");
    uint32_t value = 0;
    int digits = 0;
    for (const int most = braces        ? 6
                          : kind == 'x' ? 2
                                        : 4;
         at < end && digits < most; ++at, ++digits) {
      const char lower = char(*at | 0x20);
      if (*at >= '0' && *at <= '9') value = 16 * value + uint32_t(*at - '0');
      else if (lower >= 'a' && lower <= 'f') value = 16 * value + uint32_t(lower - 'a' + 10);
      else break;
    }
    if (digits == 0 || (braces && !accept("}"))) reject("an invalid character code");
    return value;
  }
};

Regex::Regex(std::string_view pattern) {
  RegexParser parser{*this, pattern.data(), pattern.data(), pattern.data() + pattern.size()};
  parser.alternatives();
  if (parser.at != parser.end) parser.reject("a ) without its (");
  program_.push_back({Op::match});
}

const char* Regex::match(const char* p, const char* begin, const char* end) const {
  // Tokenizer patterns need a few steps per character; others may need exponentially many.
  int64_t steps = 10000 + 20 * (end - p);
  return run(0, p, begin, end, steps);
}

const char* Regex::run(size_t pc, const char* p, const char* begin, const char* end,
                       int64_t& steps) const {
  // What backtracking can change: go to another instruction, or shorten a run down to `least`.
  struct Choice {
    size_t pc;
    const char *p, *least;
  };
  std::vector<Choice> choices;
  for (;;) {
    if (--steps < 0) fail("encode: the pattern takes too long on this text");
    const Instruction& i = program_[pc];
    bool good = true;
    switch (i.op) {
      case Op::match: return p;
      case Op::jump: pc = i.x; break;
      case Op::split:
        if (i.y >= 0) choices.push_back({size_t(i.y), p, nullptr});
        pc = i.x;
        break;
      case Op::look:
        good = (run(pc + 1, p, begin, end, steps) != nullptr) != i.negative;
        pc = i.x;
        break;
      case Op::run: {
        const Class& c = classes_[i.x];
        const char* least = i.least == 0 ? p : nullptr;
        int n = 0;
        while (n < i.most && p < end) {
          const char* next = p;
          if (!c.holds(next_character(next, end))) break;
          p = next;
          if (++n == i.least) least = p;
        }
        steps -= n / 64;
        good = n >= i.least;
        if (good && !i.possessive && p > least) choices.push_back({pc + 1, p, least});
        ++pc;
        break;
      }
    }
    if (good) continue;
    if (choices.empty()) return nullptr;
    Choice& choice = choices.back();
    pc = choice.pc;
    if (!choice.least) {
      p = choice.p;
      choices.pop_back();
    } else {
      p = choice.p = previous_character(choice.p, begin);
      if (p <= choice.least) choices.pop_back();
    }
  }
}

}  // namespace mt
