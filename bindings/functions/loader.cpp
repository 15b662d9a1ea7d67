// loader.cpp -- C functions for data/loader.lua: random numbers per item
#include <algorithm>
#include <span>

#include "bindings/functions/functions.h"
#include "engine/ops/generator.h"

namespace mt::lua {
namespace {

/// A key computed from integers, the arguments from `first` on.
uint64_t key_of(const Args& a, int first) {
  constexpr uint64_t kStep = 0x9e3779b97f4a7c15u;
  uint64_t key = 0;
  for (int i = first; i <= a.count(); ++i)
    key = mix_bits(key + kStep * (uint64_t(a.integer(i)) + 1));
  return key;
}

/// Random numbers per item: while it is active, the thread draws mt's numbers from `stream`;
/// afterwards those and math.random continue where they were.
struct ItemRandom {
  static constexpr char kShown[] = "a source of items' random numbers";
  Generator stream{Generator::Kind::philox, 0};
  Generator* before = nullptr;
  bool in_use = false;
  std::string lua_state;  // of math.random, before

  ItemRandom() = default;
  ItemRandom(const ItemRandom&) = delete;
  ~ItemRandom() { leave(); }
  void enter() {
    if (in_use) return;
    before = generator_of_thread();
    generator_of_thread() = &stream;
    in_use = true;
  }
  void leave() {
    if (in_use) generator_of_thread() = before;
    in_use = false;
  }
};

/// LuaJIT's state of math.random: a userdata, the upvalue of the C function at `index`. All its
/// bytes are copied. Empty if there is no such upvalue.
std::span<char> random_state(lua_State* L, int index) {
  std::span<char> state;
  if (!lua_iscfunction(L, index) || !lua_getupvalue(L, index, 1)) return state;
  if (lua_type(L, -1) == LUA_TUSERDATA)
    state = {static_cast<char*>(lua_touserdata(L, -1)), lua_objlen(L, -1)};
  lua_pop(L, 1);
  return state;
}
void set_state(std::span<char> state, std::string_view bytes) {
  if (state.size() == bytes.size()) std::ranges::copy(bytes, state.data());
}

const Entry kLoaderParts[] = {
    {"key(..)", "A seed below 2^53, computed from integers.",
     [](Args& a) { return a.push(key_of(a, 1) >> 11); }},
    {"item_random()", "A source of random numbers that belong to items.",
     bind<[] { return std::make_unique<ItemRandom>(); }>},
    {"enter(source, random)",
     "From now on the thread draws from the source; random is math.random.",
     [](Args& a) {
       ItemRandom& r = Userdata<ItemRandom>::at(a, 1);
       const std::span<char> state = random_state(a.L, 2);
       r.lua_state.assign(state.data(), state.size());
       r.enter();
       return 0;
     }},
    {"leave(source, random)", "Restores the thread's previous generator.",
     [](Args& a) {
       ItemRandom& r = Userdata<ItemRandom>::at(a, 1);
       set_state(random_state(a.L, 2), r.lua_state);
       r.leave();
       return 0;
     }},
    {"random_state(random, state=nil)",
     "The bytes of math.random's state, nil where LuaJIT keeps it elsewhere; with bytes: sets it.",
     [](Args& a) {
       const std::span<char> state = random_state(a.L, 1);
       if (state.empty()) return 0;
       const std::string before(state.data(), state.size());
       if (a.given(2)) set_state(state, a.characters(2));
       return a.push(before);
     }},
    {"seed(source, ..)", "Starts the source for an item; returns a seed for math.random.",
     [](Args& a) {
       check_wanted();
       const uint64_t key = key_of(a, 2);
       Userdata<ItemRandom>::at(a, 1).stream.manual_seed(key);
       return a.push(key >> 11);
     }},
};

}  // namespace

void add_loader(lua_State* L) {
  add_internal(L, kLoaderParts);
  add_workers(L);
}

}  // namespace mt::lua
