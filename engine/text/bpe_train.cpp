// bpe_train.cpp -- byte-pair encoding (Sennrich, Haddow, Birch 2016): training of merges
#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <queue>
#include <set>
#include <unordered_set>

#include "engine/core/error.h"
#include "engine/io/json.h"
#include "engine/text/bpe.h"
#include "engine/text/regex.h"
#include "engine/text/unicode.h"

namespace mt {
namespace {

struct Word {
  std::vector<int32_t> tokens;
  int64_t count;
};
using Pair = TokenPair;
struct Candidate {
  int64_t count;
  Pair pair;
  bool operator<(const Candidate& o) const {
    return count != o.count ? count < o.count : pair > o.pair;
  }
};

/// The pairs of neighbours in words: their counts, and the words that may contain them.
class BpeTrainer {
 public:
  BpeTrainer(std::vector<Word> words) : words_(std::move(words)) {
    for (size_t w = 0; w < words_.size(); ++w) {
      const Word& word = words_[w];
      for (size_t i = 0; i + 1 < word.tokens.size(); ++i)
        change({word.tokens[i], word.tokens[i + 1]}, word.count, w);
    }
    for (const auto& [pair, count] : counts_) heap_.push({count, pair});
  }

  /// The most frequent pair with a count of at least `min_count`; returns false if there is none.
  bool next(int64_t min_count, Pair& pair) {
    while (!heap_.empty()) {
      const Candidate top = heap_.top();
      heap_.pop();
      const int64_t now = counts_[top.pair];
      if (now != top.count) {
        if (now > 0) heap_.push({now, top.pair});
        continue;
      }
      if (top.count < 1 || top.count < min_count) return false;
      return pair = top.pair, true;
    }
    return false;
  }

  void merge(const Pair& pair, int32_t token) {
    new_pairs_.clear();
    const std::unordered_set<size_t> places = std::move(places_[pair]);
    for (const size_t w : places) merge_in(w, pair, token);
    counts_[pair] = 0;
    for (const Pair& p : new_pairs_)
      if (counts_[p] > 0) heap_.push({counts_[p], p});
    places_.erase(pair);
  }

 private:
  void change(const Pair& pair, int64_t by, size_t word) {
    counts_[pair] += by;
    if (by > 0) places_[pair].insert(word);
  }
  void merge_in(size_t w, const Pair& pair, int32_t token) {
    std::vector<int32_t>& t = words_[w].tokens;
    const int64_t n = words_[w].count;
    size_t end = 0;  // of the merged word, which grows at the front of t
    for (size_t i = 0; i < t.size(); ++i, ++end) {
      t[end] = t[i];
      if (i + 1 == t.size() || t[i] != pair.first || t[i + 1] != pair.second) continue;
      if (end > 0) {
        change({t[end - 1], pair.first}, -n, w);
        change({t[end - 1], token}, n, w);
        new_pairs_.insert({t[end - 1], token});
      }
      if (i + 2 < t.size()) {
        change({pair.second, t[i + 2]}, -n, w);
        change({token, t[i + 2]}, n, w);
        new_pairs_.insert({token, t[i + 2]});
      }
      t[end] = token;
      ++i;
    }
    t.resize(end);
  }

  std::vector<Word> words_;
  TokenPairMap<int64_t> counts_;
  TokenPairMap<std::unordered_set<size_t>> places_;
  std::set<Pair> new_pairs_;
  std::priority_queue<Candidate> heap_;
};

/// The distinct pieces of texts as tokens, with their counts.
std::vector<Word> words_of(const std::vector<std::string>& texts,
                           const std::array<int32_t, 256>& ids) {
  const Regex pattern(kGpt2Pattern);
  TextMap<int64_t> counts;
  for (const std::string& text : texts)
    pattern.each_match(text, [&](std::string_view piece) {
      const auto at = counts.find(piece);
      if (at != counts.end()) ++at->second;
      else counts.emplace(piece, 1);
    });
  std::vector<Word> words;
  for (const auto& [piece, count] : counts) {
    Word& word = words.emplace_back(Word{{}, count});
    for (const char c : piece) word.tokens.push_back(ids[uint8_t(c)]);
  }
  return words;
}

/// Members "token": id, sorted by id.
std::string vocabulary(const std::vector<std::string>& tokens) {
  std::string out;
  for (size_t i = 0; i < tokens.size(); ++i)
    out += fmt::format("{}\n      {}: {}", i ? "," : "", json_quoted(tokens[i]), i);
  return out;
}
std::string added(const std::vector<std::string>& special) {
  std::string out;
  for (size_t i = 0; i < special.size(); ++i)
    out += fmt::format(
        R"({}
    {{"id": {}, "content": {}, "single_word": false, "lstrip": false, "rstrip": false,
     "normalized": false, "special": true}})",
        i ? "," : "", i, json_quoted(special[i]));
  return out;
}

constexpr char kFile[] = R"({{
  "version": "1.0",
  "truncation": null,
  "padding": null,
  "added_tokens": [{}],
  "normalizer": null,
  "pre_tokenizer": {},
  "post_processor": null,
  "decoder": {},
  "model": {{
    "type": "BPE",
    "dropout": null,
    "unk_token": null,
    "continuing_subword_prefix": null,
    "end_of_word_suffix": null,
    "fuse_unk": false,
    "byte_fallback": false,
    "ignore_merges": false,
    "vocab": {{{}
    }},
    "merges": [{}]
  }}
}}
)";

}  // namespace

std::string train_bpe(const std::vector<std::string>& texts, const BpeTraining& given) {
  std::vector<std::string> tokens = given.special_tokens;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].empty() || !is_utf8(tokens[i]))
      fail("special token {} is empty or not UTF-8", i + 1);
    if (std::ranges::count(tokens, tokens[i]) > 1)
      fail("the special token '{}' is repeated", tokens[i]);
  }
  const int64_t min_size = int64_t(tokens.size()) + 256;
  if (given.vocab_size < min_size)
    fail("vocab_size is {}; the 256 bytes and {} special tokens need {}", given.vocab_size,
         tokens.size(), min_size);
  // The alphabet is sorted by the code points of its letters.
  std::map<std::string, int> alphabet;
  for (int b = 0; b < 256; ++b) alphabet[byte_letter(uint8_t(b))] = b;
  std::array<int32_t, 256> ids{};
  for (const auto& [letter, byte] : alphabet) {
    ids[byte] = int32_t(std::ranges::find(tokens, letter) - tokens.begin());
    if (ids[byte] == int32_t(tokens.size())) tokens.push_back(letter);
  }
  BpeTrainer trainer(words_of(texts, ids));
  TextMap<int32_t> known;
  for (size_t i = 0; i < tokens.size(); ++i) known.emplace(tokens[i], int32_t(i));
  std::string merges;
  for (Pair pair;
       int64_t(tokens.size()) < given.vocab_size && trainer.next(given.min_frequency, pair);) {
    check_interrupt();
    const std::string &left = tokens[pair.first], &right = tokens[pair.second];
    merges += fmt::format("{}\n      [{}, {}]", merges.empty() ? "" : ",", json_quoted(left),
                          json_quoted(right));
    const std::string both = left + right;
    const auto [at, fresh] = known.emplace(both, int32_t(tokens.size()));
    if (fresh) tokens.push_back(both);
    trainer.merge(pair, at->second);
  }
  constexpr char kByteLevel[] =
      R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true})";
  return fmt::format(kFile, added(given.special_tokens), kByteLevel, kByteLevel, vocabulary(tokens),
                     merges);
}

std::string character_tokens(std::string_view text) {
  if (!is_utf8(text)) fail("the text is not UTF-8");
  std::set<uint32_t> codes;
  for (const char *p = text.data(), *end = p + text.size(); p < end;)
    codes.insert(next_character(p, end));
  if (codes.empty()) fail("the text is empty");
  std::vector<std::string> tokens;
  for (const uint32_t c : codes) append_utf8(tokens.emplace_back(), c);
  return fmt::format(kFile, "", "null", R"({"type": "Fuse"})", vocabulary(tokens), "");
}

}  // namespace mt
