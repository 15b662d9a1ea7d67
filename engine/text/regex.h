// regex.h -- the regular expressions of tokenizers
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace mt {

/// A pattern: characters, classes ([^\s\p{L}], \p{Lu}, \s \d \w ., escapes), alternatives, groups
/// (also case-insensitive for ASCII, (?i:..)), ? * + {n,m}, also possessive, lookahead (?=..)
/// (?!..). Characters are Unicode code points, text is UTF-8. As in Perl the first alternative that
/// leads to a match is used.
class Regex {
 public:
  /// Throws Error with the position if the pattern is not valid.
  explicit Regex(std::string_view pattern);
  /// The end of the match that begins at p, or null if there is none.
  const char* match(const char* p, const char* begin, const char* end) const;

 private:
  friend struct RegexParser;
  /// A set of characters: ASCII as bits, others as alternatives of categories and a range.
  struct Class {
    struct Item {
      uint32_t categories = 0, first = 1, last = 0;
      bool negated = false;
      bool holds(uint32_t c, uint32_t category) const;
    };
    uint64_t ascii[2] = {0, 0};
    std::vector<Item> items;
    bool negated = false;
    bool holds(uint32_t c) const;
    void add(const Item&);
    void close();
  };
  enum class Op : uint8_t { run, split, jump, look, match };
  struct Instruction {
    Op op;
    bool possessive = false, negative = false;
    int x = 0, y = 0;         // run: the class; split: both targets; jump, look: the target
    int least = 1, most = 1;  // repetitions of a run
  };
  const char* run(size_t pc, const char* p, const char* begin, const char* end,
                  int64_t& steps) const;
  std::vector<Class> classes_;
  std::vector<Instruction> program_;
};

}  // namespace mt
