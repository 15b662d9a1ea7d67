// tokenizer_json.cpp -- parsing a tokenizer.json
#include <algorithm>

#include "engine/io/bytes.h"
#include "engine/io/json.h"
#include "engine/text/tokenizer.h"

namespace mt {
namespace {

constexpr int64_t kMaxTokens = int64_t(1) << 24;
constexpr size_t kMaxSteps = 16, kLongestText = 256;

/// A member of an object, or null if it is missing or JSON's null.
const Json* member(const Json& object, std::string_view name) {
  if (const JsonObject* o = object.as<JsonObject>())
    for (const JsonMember& m : *o)
      if (m.key == name) return m.value.as<std::nullptr_t>() ? nullptr : &m.value;
  return nullptr;
}
template <class T> const T& need(const Json& object, std::string_view name, const char* where) {
  const Json* const value = member(object, name);
  const T* const as = value ? value->as<T>() : nullptr;
  if (!as) fail("{} has no '{}' of the right type", where, name);
  return *as;
}
bool flag(const Json& object, std::string_view name, bool otherwise = false) {
  const Json* const value = member(object, name);
  const bool* const as = value ? value->as<bool>() : nullptr;
  return as ? *as : otherwise;
}
std::string text(const Json& object, std::string_view name, const char* where) {
  const auto& s = need<std::string>(object, name, where);
  if (s.size() > kLongestText) fail("the '{}' of {} has {} bytes", name, where, s.size());
  return s;
}
size_t count(const Json& object, std::string_view name, const char* where) {
  const int64_t n = need<int64_t>(object, name, where);
  if (n < 0 || n > 1000) fail("the '{}' of {} is {}", name, where, n);
  return n;
}

/// A step with its type.
struct Step {
  const Json& json;
  const std::string& type;
};
/// The list of steps; the JSON is one step or a sequence.
std::vector<Step> steps(const Json* given, std::string_view list, const char* where) {
  std::vector<Step> found;
  if (!given) return found;
  const auto step = [&](const Json& s) { return Step{s, need<std::string>(s, "type", where)}; };
  if (step(*given).type != "Sequence") return {step(*given)};
  for (const Json& s : need<JsonList>(*given, list, where)) {
    found.push_back(step(s));
    if (found.back().type == "Sequence") fail("{} is a sequence in a sequence", where);
  }
  if (found.size() > kMaxSteps) fail("{} has {} steps", where, found.size());
  return found;
}
[[noreturn]] void unknown(const char* where, const std::string& type) {
  fail("{} '{}' is not supported", where, printable(type));
}

/// A pattern: {"Regex": ".."} or {"String": ".."}, which is matched literally.
std::string pattern_of(const Json& step, const char* where) {
  const Json* const given = member(step, "pattern");
  if (!given) fail("{} has no 'pattern'", where);
  if (const Json* regex = member(*given, "Regex"))
    if (const std::string* s = regex->as<std::string>()) return *s;
  std::string escaped;
  for (const char c : text(*given, "String", where)) {
    if (std::string_view("\\.[](){}*+?|^$").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

}  // namespace

struct TokenizerReader {
  using Normalizer = Tokenizer::Normalizer;
  using Splitter = Tokenizer::Splitter;
  using DecodeStep = Tokenizer::DecodeStep;
  Tokenizer& t;

  void read(const Json& root) {
    if (!root.as<JsonObject>()) fail("it is not a JSON object");
    const Json* const model = member(root, "model");
    if (!model) fail("it has no 'model'");
    pre_tokenizer(member(root, "pre_tokenizer"));
    normalizer(member(root, "normalizer"));
    read_model(*model);
    added_tokens(member(root, "added_tokens"));
    decoder(member(root, "decoder"));
    post_processor(member(root, "post_processor"));
  }

  // ---- the model ----

  void add_token(const std::string& token, int64_t id) {
    if (id < 0 || id >= kMaxTokens) fail("the token '{}' has the id {}", printable(token), id);
    if (token.empty()) fail("the token with the id {} is empty", id);
    if (size_t(id) >= t.tokens_.size()) t.tokens_.resize(size_t(id) + 1);
    if (t.tokens_[id].empty()) t.tokens_[id] = token;
    t.ids_.try_emplace(token, int32_t(id));
  }

  void read_model(const Json& model) {
    const Json* const type = member(model, "type");
    const std::string kind = type && type->as<std::string>() ? *type->as<std::string>() : "BPE";
    if (kind != "BPE") fail("its model is {}, only BPE is supported", printable(kind));
    for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const Json* const given = member(model, affix);
      if (given && (!given->as<std::string>() || !given->as<std::string>()->empty()))
        fail("its model has a {}, which is not supported", affix);
    }
    const auto& vocabulary = need<JsonObject>(model, "vocab", "the model");
    if (vocabulary.empty()) fail("its vocabulary is empty");
    int64_t highest = 0;
    for (const JsonMember& m : vocabulary) {
      const int64_t* const id = m.value.as<int64_t>();
      if (!id) fail("the id of the token '{}' is not an integer", printable(m.key));
      highest = std::max(highest, *id);
    }
    // A few ids with large gaps would waste memory.
    if (highest > 16 * int64_t(vocabulary.size()) + 1024 && highest < kMaxTokens)
      fail("its {} tokens have ids up to {}", vocabulary.size(), highest);
    for (const JsonMember& m : vocabulary) add_token(m.key, *m.value.as<int64_t>());
    t.byte_fallback_ = flag(model, "byte_fallback");
    t.ignores_merges_ = flag(model, "ignore_merges");
    t.joins_unknown_ = flag(model, "fuse_unk");
    // An unk_token that is not a token (GPT-2's files have "") is ignored.
    if (const Json* u = member(model, "unk_token"))
      if (const std::string* token = u->as<std::string>()) t.unknown_ = t.id(*token).value_or(-1);
    pieces();
    merges(need<JsonList>(model, "merges", "the model"));
  }

  /// Sets the form of tokens in text, and the ids of bytes.
  void pieces() {
    t.byte_ids_.fill(-1);
    std::string raw;
    for (size_t id = 0; id < t.tokens_.size(); ++id) {
      if (t.tokens_[id].empty()) continue;
      if (!t.byte_level_) t.pieces_.try_emplace(t.tokens_[id], int32_t(id));
      else if (bytes_of_letters(t.tokens_[id], raw)) t.pieces_.try_emplace(raw, int32_t(id));
    }
    for (int b = 0; b < 256; ++b) {
      const auto id = t.id(t.byte_level_ ? byte_letter(uint8_t(b)) : fmt::format("<0x{:02X}>", b));
      if (id) t.byte_ids_[b] = *id;
    }
  }

  void merges(const JsonList& list) {
    t.merges_.reserve(list.size());
    int32_t rank = 0;
    for (const Json& entry : list) {
      std::string left, right;
      if (const std::string* s = entry.as<std::string>()) {
        const size_t space = s->find(' ');
        left = s->substr(0, space);
        if (space != s->npos) right = s->substr(space + 1);
      } else if (const JsonList* pair = entry.as<JsonList>(); pair && pair->size() == 2) {
        if (const auto* a = (*pair)[0].as<std::string>()) left = *a;
        if (const auto* b = (*pair)[1].as<std::string>()) right = *b;
      }
      const auto a = t.id(left), b = t.id(right), both = t.id(left + right);
      if (!a || !b || !both)
        fail("merge {}, '{}' and '{}': one of them, or both together, is not a token", rank + 1,
             printable(left), printable(right));
      t.merges_.add(*a, *b, {rank++, *both});
    }
  }

  void added_tokens(const Json* list) {
    if (list) {
      if (!list->as<JsonList>()) fail("its added_tokens are not a list");
      for (const Json& a : *list->as<JsonList>()) {
        const std::string& content = need<std::string>(a, "content", "an added token");
        const int64_t id = need<int64_t>(a, "id", "an added token");
        if (id > int64_t(t.tokens_.size()) + (1 << 16))
          fail("the added token '{}' has the id {}", printable(content), id);
        add_token(content, id);
        t.special_.resize(t.tokens_.size());
        t.special_[id] = flag(a, "special");
        t.added_.push_back(
            {content, int32_t(id), flag(a, "single_word"), flag(a, "lstrip"), flag(a, "rstrip")});
        t.added_from_[uint8_t(content[0])].push_back(int32_t(t.added_.size()) - 1);
      }
    }
    t.special_.resize(t.tokens_.size());
    for (auto& from : t.added_from_)
      std::ranges::stable_sort(from, [&](int32_t a, int32_t b) {
        return t.added_[a].text.size() > t.added_[b].text.size();
      });
  }

  // ---- the steps around it ----

  void normalizer(const Json* given) {
    for (const auto& [step, type] : steps(given, "normalizers", "its normalizer")) {
      if (type == "Prepend") {
        t.normalizer_.push_back({Normalizer::prepend, "", text(step, "prepend", "Prepend")});
      } else if (type == "Replace") {
        const Json* const pattern = member(step, "pattern");
        if (!pattern || !member(*pattern, "String"))
          fail("its normalizer replaces a pattern, which is not supported");
        t.normalizer_.push_back({Normalizer::replace, text(*pattern, "String", "Replace"),
                                 text(step, "content", "Replace")});
      } else {
        constexpr std::pair<const char*, TextForm> forms[] = {{"NFC", TextForm::nfc},
                                                              {"NFD", TextForm::nfd},
                                                              {"NFKC", TextForm::nfkc},
                                                              {"NFKD", TextForm::nfkd},
                                                              {"Lowercase", TextForm::lowercase}};
        const auto at = std::ranges::find(forms, type, &std::pair<const char*, TextForm>::first);
        if (at == std::end(forms)) unknown("the normalizer", type);
        check_text_forms();
        t.normalizer_.push_back({Normalizer::form, "", "", at->second});
      }
    }
  }

  Splitter& split_by(const std::string& pattern, bool matches = true, bool gaps = true) {
    Splitter& s = t.splitters_.emplace_back();
    s.kind = Splitter::split;
    s.pattern = std::make_shared<const Regex>(pattern);
    s.keeps_matches = matches, s.keeps_gaps = gaps;
    return s;
  }
  /// Splits with a behavior: matches are separate, removed, or merged with a neighbour.
  void split_as(const std::string& pattern, const std::string& behavior, bool inverted,
                const char* of) {
    const bool removed = behavior == "Removed";
    Splitter& s = split_by(pattern, !removed || inverted, !removed || !inverted);
    s.inverted = inverted;
    if (behavior == "Contiguous") s.join = Splitter::equals;
    else if (behavior == "MergedWithPrevious") s.join = Splitter::match_to_gap;
    else if (behavior == "MergedWithNext") s.join = Splitter::match_before_gap;
    else if (!removed && behavior != "Isolated")
      unknown(fmt::format("the pre-tokenizer {}'s behavior", of).c_str(), behavior);
  }

  void pre_tokenizer(const Json* given) {
    for (const auto& [step, type] : steps(given, "pretokenizers", "its pre-tokenizer")) {
      if (type == "ByteLevel") {
        t.byte_level_ = true;
        if (flag(step, "add_prefix_space")) {
          Splitter s{};
          s.kind = Splitter::prefix_space;
          t.splitters_.push_back(s);
        }
        if (flag(step, "use_regex", true)) split_by(kGpt2Pattern);
      } else if (type == "Split") {
        split_as(pattern_of(step, "Split"), need<std::string>(step, "behavior", "Split"),
                 flag(step, "invert"), "Split");
      } else if (type == "Digits") {
        split_by(flag(step, "individual_digits") ? "\\p{N}" : "\\p{N}+");
      } else if (type == "WhitespaceSplit") {
        split_by("\\s+", false, true);
      } else if (type == "Whitespace") {
        split_by("[" MT_WORD "]+|[^" MT_WORD "\\s]+", true, false);
      } else if (type == "Punctuation") {
        const Json* const behavior = member(step, "behavior");
        split_as("[\\p{P}$+<=>^`|~]",
                 behavior ? need<std::string>(step, "behavior", "Punctuation") : "Isolated", false,
                 "Punctuation");
      } else if (type == "Metaspace") {
        metaspace(step);
      } else {
        unknown("the pre-tokenizer", type);
      }
    }
  }
  static std::string scheme(const Json& step) {
    const Json* const given = member(step, "prepend_scheme");
    if (given && given->as<std::string>()) return *given->as<std::string>();
    return flag(step, "add_prefix_space", true) ? "always" : "never";
  }
  void metaspace(const Json& step) {
    Splitter s{};
    s.kind = Splitter::metaspace;
    s.mark = text(step, "replacement", "Metaspace");
    if (s.mark.empty()) fail("the replacement of Metaspace is empty");
    s.always = scheme(step) == "always", s.first = scheme(step) == "first";
    s.keeps_gaps = flag(step, "split", true);
    t.splitters_.push_back(std::move(s));
  }

  void decoder(const Json* given) {
    t.has_decoder_ = given != nullptr;
    for (const auto& [step, type] : steps(given, "decoders", "its decoder")) {
      DecodeStep d{};
      if (type == "ByteLevel") d.kind = DecodeStep::bytes;
      else if (type == "ByteFallback") d.kind = DecodeStep::byte_fallback;
      else if (type == "Fuse") d.kind = DecodeStep::fuse;
      else if (type == "Replace") {
        const Json* const pattern = member(step, "pattern");
        if (!pattern) fail("the decoder Replace has no 'pattern'");
        d = {DecodeStep::replace, text(*pattern, "String", "Replace"),
             text(step, "content", "Replace")};
      } else if (type == "Strip") {
        d = {DecodeStep::strip, text(step, "content", "Strip"), "", count(step, "start", "Strip"),
             count(step, "stop", "Strip")};
        if (d.from.empty()) fail("the content of the decoder Strip is empty");
      } else if (type == "Metaspace") {
        d = {DecodeStep::metaspace, text(step, "replacement", "Metaspace"), "",
             scheme(step) != "never"};
      } else {
        unknown("the decoder", type);
      }
      t.decoder_.push_back(std::move(d));
    }
  }

  /// The id in ["<s>", 0].
  int32_t special_at(const Json& step, const char* name) const {
    const auto& pair = need<JsonList>(step, name, "its post-processor");
    const int64_t* const id = pair.size() == 2 ? pair[1].as<int64_t>() : nullptr;
    if (!id || !t.token(*id)) fail("the '{}' of its post-processor is not a token", name);
    return int32_t(*id);
  }
  void post_processor(const Json* given) {
    for (const auto& [step, type] : steps(given, "processors", "its post-processor")) {
      if (type == "ByteLevel") continue;
      if (type == "RobertaProcessing" || type == "BertProcessing") {
        t.before_.push_back(special_at(step, "cls"));
        t.after_.push_back(special_at(step, "sep"));
        continue;
      }
      if (type != "TemplateProcessing") unknown("the post-processor", type);
      const Json* const special = member(step, "special_tokens");
      bool behind = false;
      for (const Json& item : need<JsonList>(step, "single", "TemplateProcessing")) {
        if (member(item, "Sequence")) {
          behind = true;
          continue;
        }
        const Json* const token = member(item, "SpecialToken");
        if (!token || !special) fail("a part of TemplateProcessing is not supported");
        const Json* const known = member(*special, need<std::string>(*token, "id", "SpecialToken"));
        if (!known) fail("TemplateProcessing has a special token that it does not list");
        for (const Json& id : need<JsonList>(*known, "ids", "a special token")) {
          const int64_t* const n = id.as<int64_t>();
          if (!n || !t.token(*n)) fail("TemplateProcessing has an id that is not a token");
          (behind ? t.after_ : t.before_).push_back(int32_t(*n));
        }
      }
    }
  }
};

Tokenizer::Tokenizer(std::string_view json) { TokenizerReader{*this}.read(parse_json(json)); }

}  // namespace mt
