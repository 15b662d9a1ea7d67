// tokenizer.cpp -- tokenizers defined by a tokenizer.json of Hugging Face: encoding and decoding
#include "engine/text/tokenizer.h"

#include <algorithm>

#include "engine/core/error.h"
#include "engine/io/bytes.h"
#include "engine/text/unicode.h"

namespace mt {
namespace {

constexpr size_t kMaxCached = 1 << 16, kLongestCached = 64;

bool is_space(std::string_view character) {
  static const Regex space("\\s");
  return space.is_in(character);
}
bool is_word(std::string_view character) {
  static const Regex word("[" MT_WORD "]");
  return word.is_in(character);
}
/// The bytes of the character that ends, or begins, at a position.
std::string_view character_before(std::string_view text, size_t at) {
  size_t from = at - 1;
  while (from > 0 && at - from < 4 && (uint8_t(text[from]) & 0xc0) == 0x80) --from;
  return text.substr(from, at - from);
}
std::string_view character_at(std::string_view text, size_t at) {
  const char *const first = text.data() + at, *p = first;
  next_character(p, text.data() + text.size());
  return {first, size_t(p - first)};
}

}  // namespace

const std::string* Tokenizer::token(int64_t id) const {
  if (id < 0 || id >= size() || tokens_[id].empty()) return nullptr;
  return &tokens_[id];
}

std::optional<int32_t> Tokenizer::id(std::string_view token) const {
  const auto at = ids_.find(token);
  if (at == ids_.end()) return {};
  return at->second;
}

// ---- text to tokens ------------------------------------------------------------------------------

/// The longest added token at a position, or null.
const Tokenizer::Added* Tokenizer::added_at(std::string_view text, size_t at) const {
  for (const int32_t k : added_from_[uint8_t(text[at])]) {
    const Added& a = added_[k];
    if (text.substr(at, a.text.size()) != a.text) continue;
    if (a.single_word) {
      const size_t end = at + a.text.size();
      if ((at > 0 && is_word(character_before(text, at))) ||
          (end < text.size() && is_word(character_at(text, end))))
        continue;
    }
    return &a;
  }
  return nullptr;
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool special) const {
  std::vector<int32_t> out;
  if (special) out = before_;
  size_t from = 0, at = 0;
  const auto plain = [&](size_t end) {
    if (end > from) encode_plain(text.substr(from, end - from), from == 0, out);
  };
  while (at < text.size()) {
    const Added* const a = added_from_[uint8_t(text[at])].empty() ? nullptr : added_at(text, at);
    if (!a) {
      ++at;
      continue;
    }
    size_t first = at, last = at + a->text.size();
    while (a->left && first > from && is_space(character_before(text, first)))
      first -= character_before(text, first).size();
    while (a->right && last < text.size() && is_space(character_at(text, last)))
      last += character_at(text, last).size();
    plain(first);
    out.push_back(a->id);
    from = at = last;
  }
  plain(text.size());
  if (special) out.insert(out.end(), after_.begin(), after_.end());
  return out;
}

/// Encodes text between added tokens; `first`: it is the beginning of the text.
void Tokenizer::encode_plain(std::string_view text, bool first, std::vector<int32_t>& out) const {
  if (normalizer_.empty()) return pre_tokenize(text, first, 0, out);
  std::string changed(text);
  for (const Normalizer& n : normalizer_) switch (n.kind) {
      case Normalizer::prepend: changed.insert(0, n.to); break;
      case Normalizer::replace: replace_all(changed, n.from, n.to); break;
      case Normalizer::form: changed = in_form(n.text_form, changed); break;
    }
  pre_tokenize(changed, first, 0, out);
}

void Tokenizer::pre_tokenize(std::string_view text, bool first, size_t step,
                             std::vector<int32_t>& out) const {
  if (text.empty()) return;
  if (step == splitters_.size()) return encode_piece(text, out);
  const Splitter& s = splitters_[step];
  if (s.kind == Splitter::prefix_space) {
    if (text.front() == ' ') return pre_tokenize(text, first, step + 1, out);
    return pre_tokenize(" " + std::string(text), first, step + 1, out);
  }
  std::string changed;
  if (s.kind == Splitter::metaspace) {
    changed = text;
    replace_all(changed, " ", s.mark);
    if ((s.always || (s.first && first)) && !changed.starts_with(s.mark)) changed.insert(0, s.mark);
    text = changed;
  }
  Pieces pieces;
  split(s, text, pieces);
  for (const std::string_view piece : pieces)
    pre_tokenize(piece, first && piece.data() == text.data(), step + 1, out);
}

void Tokenizer::split(const Splitter& s, std::string_view text, Pieces& out) const {
  const char *const begin = text.data(), *const end = begin + text.size();
  bool before = false;  // whether the previous piece is a match
  const auto add = [&](const char* from, const char* to, bool match) {
    if (to == from || !(match ? s.keeps_matches : s.keeps_gaps)) return;
    match = match != s.inverted;
    const bool joins = (s.join == Splitter::equals && match == before) ||
                       (s.join == Splitter::match_to_gap && match && !before) ||
                       (s.join == Splitter::match_before_gap && !match && before);
    before = match;
    if (joins && !out.empty()) out.back() = {out.back().data(), size_t(to - out.back().data())};
    else out.emplace_back(from, to - from);
  };
  if (s.kind == Splitter::metaspace) {  // splits before each mark
    if (!s.keeps_gaps) return add(begin, end, true);
    size_t from = 0;
    for (size_t at; (at = text.find(s.mark, from + 1)) != text.npos; from = at)
      add(begin + from, begin + at, true);
    return add(begin + from, end, true);
  }
  const char* gap = begin;
  s.pattern->each_match(text, [&](std::string_view match) {
    add(gap, match.data(), false);
    add(match.data(), match.data() + match.size(), true);
    gap = match.data() + match.size();
  });
  add(gap, end, false);
}

void Tokenizer::encode_piece(std::string_view piece, std::vector<int32_t>& out) const {
  const bool cached = piece.size() <= kLongestCached;
  if (cached) {
    const std::lock_guard lock(guard_);
    const auto at = cache_.find(piece);
    if (at != cache_.end()) {
      out.insert(out.end(), at->second.begin(), at->second.end());
      return;
    }
  }
  const std::vector<int32_t> tokens = merge_piece(piece);
  out.insert(out.end(), tokens.begin(), tokens.end());
  if (!cached) return;
  const std::lock_guard lock(guard_);
  if (cache_.size() >= kMaxCached) cache_.clear();
  cache_.try_emplace(std::string(piece), tokens);
}

std::vector<int32_t> Tokenizer::merge_piece(std::string_view piece) const {
  std::vector<int32_t> tokens;
  if (ignores_merges_) {
    const auto whole = pieces_.find(piece);
    if (whole != pieces_.end()) return {whole->second};
  }
  if (byte_level_) {
    for (const char c : piece) {
      if (byte_ids_[uint8_t(c)] >= 0) tokens.push_back(byte_ids_[uint8_t(c)]);
      else add_unknown({&c, 1}, tokens);
    }
  } else {
    for (size_t at = 0; at < piece.size();) {
      const std::string_view character = character_at(piece, at);
      const auto known = pieces_.find(character);
      if (known != pieces_.end()) tokens.push_back(known->second);
      else add_unknown(character, tokens);
      at += character.size();
    }
  }
  merges_.apply(tokens);
  return tokens;
}

void Tokenizer::add_unknown(std::string_view character, std::vector<int32_t>& out) const {
  if (byte_fallback_ &&
      std::ranges::all_of(character, [&](char c) { return byte_ids_[uint8_t(c)] >= 0; })) {
    for (const char c : character) out.push_back(byte_ids_[uint8_t(c)]);
    return;
  }
  if (unknown_ < 0) {
    const char* p = character.data();
    const uint32_t code = next_character(p, p + character.size());
    const std::string shown =
        code >= 0x110000 ? fmt::format("byte 0x{:02X}", code - 0x110000)
        : code >= 0x20 && code < 0x7f
            ? fmt::format("character '{}'", character)
            : fmt::format("character {}U+{:04X}",
                          code >= 0xa0 ? fmt::format("'{}', ", character) : "", code);
    fail("encode: the {} is not among the tokenizer's {} tokens", shown, tokens_.size());
  }
  if (!joins_unknown_ || out.empty() || out.back() != unknown_) out.push_back(unknown_);
}

// ---- tokens to text ------------------------------------------------------------------------------

std::string Tokenizer::decode(const std::vector<int32_t>& ids, bool skip_special) const {
  std::vector<std::string> parts;
  for (const int32_t id : ids) {
    const std::string* const t = token(id);
    if (!t || (skip_special && special_[id])) continue;
    parts.push_back(*t);
  }
  for (const DecodeStep& step : decoder_) apply(step, parts);
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i && !has_decoder_) text += ' ';
    text += parts[i];
  }
  return text;
}

void Tokenizer::apply(const DecodeStep& step, std::vector<std::string>& parts) const {
  switch (step.kind) {
    case DecodeStep::bytes:
      for (std::string& part : parts) {
        std::string raw;
        if (bytes_of_letters(part, raw)) part = raw;
      }
      break;
    case DecodeStep::replace:
      for (std::string& part : parts) replace_all(part, step.from, step.to);
      break;
    case DecodeStep::metaspace:
      for (size_t i = 0; i < parts.size(); ++i) {
        replace_all(parts[i], step.from, " ");
        if (i == 0 && step.start && parts[i].starts_with(' ')) parts[i].erase(0, 1);
      }
      break;
    case DecodeStep::byte_fallback:
      for (std::string& part : parts) {
        unsigned byte;
        char rest;
        if (part.size() == 6 && std::sscanf(part.c_str(), "<0x%2X>%c", &byte, &rest) == 1 &&
            part[5] == '>')
          part = std::string(1, char(byte));
      }
      break;
    case DecodeStep::fuse: {
      std::string whole;
      for (const std::string& part : parts) whole += part;
      parts = {whole};
      break;
    }
    case DecodeStep::strip:
      for (std::string& part : parts) {
        for (size_t k = 0; k < step.start && part.starts_with(step.from); ++k)
          part.erase(0, step.from.size());
        for (size_t k = 0; k < step.stop && part.ends_with(step.from); ++k)
          part.resize(part.size() - step.from.size());
      }
      break;
  }
}

}  // namespace mt
