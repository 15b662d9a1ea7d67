// tokenizer.h -- tokenizers defined by a tokenizer.json of Hugging Face: encoding and decoding
#pragma once
#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/bpe.h"
#include "engine/text/regex.h"
#include "engine/text/unicode.h"

namespace mt {

/// A byte-pair tokenizer. Ids are those of the file, from 0. Supported are: the model BPE
/// (byte_fallback, ignore_merges, unk_token); the pre-tokenizers ByteLevel, Split, Digits,
/// Metaspace, Whitespace, WhitespaceSplit, Punctuation; the normalizers Prepend, Replace, NFC, NFD,
/// NFKC, NFKD, Lowercase; the decoders ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace;
/// the post-processors ByteLevel, TemplateProcessing, RobertaProcessing, BertProcessing; sequences
/// of these; added tokens. Truncation and padding are ignored; anything else throws Error with its
/// name. Thread-safe.
class Tokenizer {
 public:
  /// Parses the text of a tokenizer.json. Throws Error if it is not valid.
  explicit Tokenizer(std::string_view json);

  /// The ids of a text. special: adds the special tokens of the post-processor (a first token, ..).
  std::vector<int32_t> encode(std::string_view text, bool special = true) const;
  /// The text of ids; special tokens are skipped.
  std::string decode(const std::vector<int32_t>& ids, bool skip_special = true) const;

  /// The largest id + 1.
  int64_t size() const { return int64_t(tokens_.size()); }
  /// A token as written in the file, or null.
  const std::string* token(int64_t id) const;
  std::optional<int32_t> id(std::string_view token) const;

 private:
  friend struct TokenizerReader;
  struct Added {
    std::string text;
    int32_t id;
    bool single_word, left, right;  // whole words only; strips spaces on the left, on the right
  };
  struct Normalizer {
    enum Kind { prepend, replace, form } kind;
    std::string from, to;
    TextForm text_form = TextForm::nfc;
  };
  /// One step of the pre-tokenizer.
  struct Splitter {
    enum Kind { split, metaspace, prefix_space } kind;
    std::shared_ptr<const Regex> pattern;
    bool keeps_matches = true, keeps_gaps = true;
    // Which neighbours are merged into one piece; inverted: matches and gaps are swapped.
    enum Join { apart, equals, match_to_gap, match_before_gap } join = apart;
    bool inverted = false;
    bool always = false, first = false;  // of metaspace: where the mark is prepended
    std::string mark;
  };
  struct DecodeStep {
    enum Kind { bytes, replace, byte_fallback, fuse, strip, metaspace } kind;
    std::string from, to;
    size_t start = 0, stop = 0;
  };
  using Pieces = std::vector<std::string_view>;

  void encode_plain(std::string_view text, bool first, std::vector<int32_t>& out) const;
  void pre_tokenize(std::string_view text, bool first, size_t step,
                    std::vector<int32_t>& out) const;
  void split(const Splitter&, std::string_view text, Pieces& out) const;
  void encode_piece(std::string_view piece, std::vector<int32_t>& out) const;
  std::vector<int32_t> merge_piece(std::string_view piece) const;
  void add_unknown(std::string_view character, std::vector<int32_t>& out) const;
  const Added* added_at(std::string_view text, size_t at) const;
  void apply(const DecodeStep&, std::vector<std::string>& parts) const;

  std::vector<std::string> tokens_;  // by id; empty for unused ids
  std::vector<char> special_;
  TextMap<int32_t> ids_, pieces_;  // pieces_: as they occur in text
  Merges merges_;
  bool byte_level_ = false, byte_fallback_ = false, ignores_merges_ = false, joins_unknown_ = false;
  bool has_decoder_ = false;
  int32_t unknown_ = -1;
  std::array<int32_t, 256> byte_ids_;
  std::vector<Added> added_;
  std::array<std::vector<int32_t>, 256> added_from_;  // by first byte, the longest first
  std::vector<Normalizer> normalizer_;
  std::vector<Splitter> splitters_;
  std::vector<DecodeStep> decoder_;
  std::vector<int32_t> before_, after_;  // special tokens before and after a text
  mutable std::mutex guard_;
  mutable TextMap<std::vector<int32_t>> cache_;
};

}  // namespace mt
