// tokenizer.cpp -- what data/tokenizer.lua is made of
#include "engine/data/tokenizer.h"

#include "bindings/core/held.h"
#include "bindings/functions/functions.h"

namespace mt::lua {
namespace {

struct HeldTokenizer : Tokenizer {
  static constexpr char kShown[] = "a tokenizer";
  using Tokenizer::Tokenizer;
};
const Tokenizer& tokenizer_at(const Args& a) { return Held<HeldTokenizer>::at(a, 1); }

/// The ids of a list or a tensor of positions, or of one of them.
std::vector<int32_t> ids_at(const Args& a, int i, int64_t size) {
  const WholeNumbers given = Arg<WholeNumbers>::get(a, i);
  const Tensor x = given.value;
  std::vector<int32_t> ids(size_t(x.numel()));
  for (int64_t k = 0; k < x.numel(); ++k) {
    const int64_t position = x.at_integer(k);
    if (position < 1 || position > size) fail("decode: token {} is outside 1..{}", position, size);
    ids[size_t(k)] = int32_t(position - 1);
  }
  return ids;
}

const Entry kTokenizer[] = {
    {"tokenizer(json)", "A tokenizer of the text of a tokenizer.json.",
     [](Args& a) {
       Held<HeldTokenizer>::push(a.L, std::make_unique<HeldTokenizer>(a.characters(1)));
       return 1;
     }},
    {"encode(tokenizer, text, special)", "The positions of a text's tokens, int64.",
     [](Args& a) {
       const std::vector<int32_t> ids = tokenizer_at(a).encode(a.characters(2), a.boolean(3));
       const Tensor out = empty({int64_t(ids.size())}, Dtype::i64);
       for (size_t k = 0; k < ids.size(); ++k) out.data_as<int64_t>()[k] = int64_t(ids[k]) + 1;
       return a.push(out);
     }},
    {"decode(tokenizer, ids, skip_special)", "The text of positions.",
     [](Args& a) {
       const Tokenizer& t = tokenizer_at(a);
       return a.push(t.decode(ids_at(a, 2, t.size()), a.boolean(3)));
     }},
    {"size(tokenizer)", "How many positions there are.",
     [](Args& a) { return a.push(double(tokenizer_at(a).size())); }},
    {"token(tokenizer, position)", "The token at a position, or nil.",
     [](Args& a) {
       const std::string* const t = tokenizer_at(a).token(a.integer(2) - 1);
       return t ? a.push(*t) : 0;
     }},
    {"id(tokenizer, token)", "The position of a token, or nil.",
     [](Args& a) {
       const auto id = tokenizer_at(a).id(a.characters(2));
       return id ? a.push(double(*id + 1)) : 0;
     }},
    {"train(texts, vocab_size, min_frequency, special_tokens)", "Learns tokens: a tokenizer.json.",
     [](Args& a) {
       const auto list = [&](int i) {
         std::vector<std::string> strings;
         for (int k = 1, n = int(lua_objlen(a.L, i)); k <= n; ++k) {
           lua_rawgeti(a.L, i, k);
           size_t size = 0;
           const char* const s = lua_tolstring(a.L, -1, &size);
           strings.emplace_back(s ? s : "", size);
           lua_pop(a.L, 1);
         }
         return strings;
       };
       return a.push(train_bpe(list(1), {a.integer(2), a.integer(3), list(4)}));
     }},
    {"characters(text)", "A tokenizer.json of a text's characters.",
     [](Args& a) { return a.push(character_tokens(a.characters(1))); }},
};

}  // namespace

void push_tokenizer(lua_State* L) {
  lua_newtable(L);
  add(L, kTokenizer);
  for (const Entry& e : kTokenizer) e.internal = true;
}

}  // namespace mt::lua
