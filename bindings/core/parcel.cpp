// parcel.cpp -- Lua values outside of any Lua state, for the transfer from one thread to another
#include "bindings/core/parcel.h"

#include <cstring>
#include <unordered_map>

namespace mt::lua {
namespace {

/// The first byte of a value. Keys and values of a table follow it up to `end`; `again` is a table
/// that was written before, given by its number.
enum Tag : char { nil, no, yes, number, string, tensor, table, shape, again, end };
constexpr int kMaxDepth = 150;

/// The path of a value: keys of nested tables, at these stack indices.
struct Path {
  const Path* outer;
  int key;
};
std::string path_text(lua_State* L, const Path* p) {
  if (!p) return "the value";
  const bool named = lua_type(L, p->key) == LUA_TSTRING;
  return path_text(L, p->outer) + (named ? std::string(".") + lua_tostring(L, p->key)
                                         : fmt::format("[{}]", describe(L, p->key)));
}

}  // namespace

class Parcel::Writer {
 public:
  Writer(Parcel& to, lua_State* L) : to_(to), L_(L) {}
  void value(int i, const Path* path = nullptr, int depth = 0) {
    if (depth > kMaxDepth) fail("tables are nested more than {} deep", kMaxDepth);
    switch (lua_type(L_, i)) {
      case LUA_TNIL: return tag(nil);
      case LUA_TBOOLEAN: return tag(lua_toboolean(L_, i) ? yes : no);
      case LUA_TNUMBER: return tag(number), raw(lua_tonumber(L_, i));
      case LUA_TSTRING: return text(i);
      case LUA_TTABLE: return entries(i, path, depth);
      default: break;
    }
    const Tensor* t = tensor_at(L_, i);
    if (!t)
      fail("{} is {}; numbers, strings, booleans, tensors and tables of them can be passed on",
           path_text(L_, path), describe(L_, i));
    if (&t->device() != &cpu_device())
      fail("{} is a tensor of {}; workers compute on the CPU: move batches in the loop, x:to('{}')",
           path_text(L_, path), t->device().name, t->device().name);
    tag(Tag::tensor), raw(to_.tensors_.size());
    to_.tensors_.push_back(t->detach());
  }

 private:
  void tag(Tag t) { to_.bytes_ += char(t); }
  void raw(auto x) {
    char bytes[sizeof x];
    std::memcpy(bytes, &x, sizeof x);
    to_.bytes_.append(bytes, sizeof x);
  }
  void text(int i) {
    const std::string_view s = text_at(L_, i);
    tag(Tag::string), raw(s.size());
    to_.bytes_ += s;
  }
  void entries(int i, const Path* path, int depth) {
    luaL_checkstack(L_, 4, "a table for another thread");
    const auto [known, fresh] = written_.try_emplace(lua_topointer(L_, i), written_.size());
    if (!fresh) return tag(again), raw(known->second);
    bool is_shape = false;
    if (lua_getmetatable(L_, i)) {
      luaL_getmetatable(L_, "mtorch.shape");
      is_shape = lua_rawequal(L_, -1, -2);
      lua_pop(L_, 2);
      if (!is_shape)
        fail("{} is a table with a metatable, which cannot be passed on", path_text(L_, path));
    }
    tag(is_shape ? Tag::shape : Tag::table);
    for (lua_pushnil(L_); lua_next(L_, i); lua_pop(L_, 1)) {
      const int at = lua_gettop(L_);
      const Path inner{path, at - 1};
      value(at - 1, &inner, depth + 1);
      value(at, &inner, depth + 1);
    }
    tag(end);
  }

  Parcel& to_;
  lua_State* L_;
  std::unordered_map<const void*, size_t> written_;
};

class Parcel::Reader {
 public:
  Reader(const Parcel& from, lua_State* L) : from_(from), L_(L) {
    lua_newtable(L);  // the tables, by number
    tables_ = lua_gettop(L);
  }
  /// Pushes the next value; false at the end of a table.
  bool value() {
    switch (const Tag t = Tag(from_.bytes_[at_++])) {
      case nil: lua_pushnil(L_); break;
      case no:
      case yes: lua_pushboolean(L_, t == yes); break;
      case number: lua_pushnumber(L_, raw<double>()); break;
      case string: {
        const size_t n = raw<size_t>();
        lua_pushlstring(L_, from_.bytes_.data() + at_, n);
        at_ += n;
        break;
      }
      case tensor: push_tensor(L_, from_.tensors_[raw<size_t>()].detach()); break;
      case again: lua_rawgeti(L_, tables_, int(raw<size_t>()) + 1); break;
      case end: return false;
      case table:
      case shape: entries(t == shape);
    }
    return true;
  }
  void finish() { lua_remove(L_, tables_); }

 private:
  template <class T> T raw() {
    T x;
    std::memcpy(&x, from_.bytes_.data() + at_, sizeof x);
    at_ += sizeof x;
    return x;
  }
  void entries(bool is_shape) {
    luaL_checkstack(L_, 4, "a table from another thread");
    lua_newtable(L_);
    lua_pushvalue(L_, -1);
    lua_rawseti(L_, tables_, ++met_);
    if (is_shape) {
      luaL_getmetatable(L_, "mtorch.shape");
      lua_setmetatable(L_, -2);
    }
    while (value()) {
      value();
      lua_rawset(L_, -3);
    }
  }

  const Parcel& from_;
  lua_State* L_;
  size_t at_ = 0;
  int tables_ = 0, met_ = 0;
};

Parcel::Parcel(lua_State* L, int first, int last) : count_(last - first + 1) {
  Writer writer(*this, L);
  for (int i = first; i <= last; ++i) writer.value(i);
}

int Parcel::push(lua_State* L) const {
  luaL_checkstack(L, count_ + 2, "values from another thread");
  Reader reader(*this, L);
  for (int i = 0; i < count_; ++i) reader.value();
  reader.finish();
  return count_;
}

bool Parcel::same(const Parcel& o) const {
  if (count_ != o.count_ || bytes_ != o.bytes_ || tensors_.size() != o.tensors_.size())
    return false;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const Tensor &a = tensors_[i], &b = o.tensors_[i];
    if (a.impl()->storage != b.impl()->storage || a.offset() != b.offset() ||
        a.dtype() != b.dtype() || !(a.shape() == b.shape()) || !(a.strides() == b.strides()))
      return false;
  }
  return true;
}

}  // namespace mt::lua
