// tokenizer.cpp -- C functions for data/tokenizer.lua
#include "engine/text/tokenizer.h"

#include "bindings/functions/functions.h"

namespace mt::lua {
namespace {

struct LuaTokenizer : Tokenizer {
  static constexpr char kShown[] = "a tokenizer";
  using Tokenizer::Tokenizer;
};

/// Converts positions to ids.
std::vector<int32_t> ids_of(const Tensor& x, int64_t size) {
  std::vector<int32_t> ids(x.numel());
  for (int64_t k = 0; k < x.numel(); ++k) {
    const int64_t position = x.at_integer(k);
    if (position < 1 || position > size) fail("decode: token {} is outside 1..{}", position, size);
    ids[k] = int32_t(position - 1);
  }
  return ids;
}

const Entry kTokenizer[] = {
    {"tokenizer(json)", "A tokenizer of the text of a tokenizer.json.",
     bind<[](std::string_view json) { return std::make_unique<LuaTokenizer>(json); }>},
    {"encode(tokenizer, text, special)", "The positions of a text's tokens, int64.",
     bind<[](const LuaTokenizer& t, std::string_view text, bool special) {
       const std::vector<int32_t> ids = t.encode(text, special);
       const Tensor out = empty({int64_t(ids.size())}, Dtype::i64);
       for (size_t k = 0; k < ids.size(); ++k) out.data_as<int64_t>()[k] = int64_t(ids[k]) + 1;
       return out;
     }>},
    {"decode(tokenizer, ids, skip_special)", "The text of positions.",
     bind<[](const LuaTokenizer& t, const WholeNumbers& ids, bool skip_special) {
       return t.decode(ids_of(ids, t.size()), skip_special);
     }>},
    {"size(tokenizer)", "The number of positions.",
     bind<[](const LuaTokenizer& t) { return t.size(); }>},
    {"token(tokenizer, position)", "The token at a position, or nothing.",
     bind<[](const LuaTokenizer& t, int64_t position) {
       const std::string* const token = t.token(position - 1);
       return token ? std::optional(*token) : std::nullopt;
     }>},
    {"id(tokenizer, token)", "The position of a token, or nothing.",
     bind<[](const LuaTokenizer& t, std::string_view token) {
       const auto id = t.id(token);
       return id ? std::optional(*id + 1) : std::nullopt;
     }>},
    {"train(texts, vocab_size, min_frequency, special_tokens)", "Trains a tokenizer.json.",
     bind<[](const std::vector<std::string>& texts, int64_t size, int64_t frequency,
             const std::vector<std::string>& special) {
       return train_bpe(texts, {size, frequency, special});
     }>},
    {"characters(text)", "A tokenizer.json of a text's characters.", bind<character_tokens>},
};

}  // namespace

void add_tokenizer(lua_State* L) { add_internal(L, kTokenizer); }

}  // namespace mt::lua
