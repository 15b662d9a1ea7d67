// bpe.h -- byte-pair encoding (Sennrich, Haddow, Birch 2016): applying merges, and training
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace mt {

/// A hash of strings that allows look-up by string_view.
struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
};
template <class T> using TextMap = std::unordered_map<std::string, T, TextHash, std::equal_to<>>;

/// Two adjacent tokens.
using TokenPair = std::pair<int32_t, int32_t>;
struct TokenPairHash {
  size_t operator()(const TokenPair& p) const {
    uint64_t x = uint64_t(uint32_t(p.first)) << 32 | uint32_t(p.second);
    x = (x ^ x >> 32) * 0x9e3779b97f4a7c15;
    return x ^ x >> 29;
  }
};
template <class T> using TokenPairMap = std::unordered_map<TokenPair, T, TokenPairHash>;

/// The pairs of tokens that are merged, and their order: the lowest rank is first.
class Merges {
 public:
  struct Merge {
    int32_t rank, token;
  };
  /// For equal pairs the first one is kept.
  void add(int32_t left, int32_t right, Merge merge) { pairs_.try_emplace({left, right}, merge); }
  const Merge* find(int32_t left, int32_t right) const {
    const auto at = pairs_.find({left, right});
    return at == pairs_.end() ? nullptr : &at->second;
  }
  void reserve(size_t n) { pairs_.reserve(n); }
  /// Merges the tokens of a piece in place.
  void apply(std::vector<int32_t>& tokens) const;

 private:
  TokenPairMap<Merge> pairs_;
};

/// The letters with which GPT-2's vocabulary represents bytes: printable ones represent themselves,
/// the others are U+0100 and following.
const std::string& byte_letter(uint8_t byte);
/// Converts such letters to bytes; returns false if one is not such a letter.
bool bytes_of_letters(std::string_view letters, std::string& bytes);

struct BpeTraining {
  int64_t vocab_size = 1000;
  int64_t min_frequency = 0;
  std::vector<std::string> special_tokens;
};
/// Trains byte-level tokens on texts, split as in GPT-2; returns the text of a tokenizer.json. The
/// vocabulary is that of tokenizers' BpeTrainer with the alphabet of all bytes: the most frequent
/// pair first, and for equal counts the one with the lowest ids.
std::string train_bpe(const std::vector<std::string>& texts, const BpeTraining&);
/// A tokenizer.json whose tokens are the characters of a text, sorted by code point.
std::string character_tokens(std::string_view text);

extern const char* const kGpt2Pattern;

}  // namespace mt
