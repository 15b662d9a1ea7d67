// indexing.cpp -- x[k] and x[k] = v: numbers, tables, strings such as '1:3, :, -1', and tensors
#include "bindings/core/indexing.h"

#include <cctype>
#include <cmath>
#include <cstring>
#include <optional>

#include "bindings/core/module.h"
#include "engine/autograd/graph.h"
#include "engine/core/device.h"

namespace mt::lua {

const char kNewaxis = 0, kEllipsis = 0;

int64_t index_number(lua_State* L, int i) {
  const double x = lua_tonumber(L, i);
  if (lua_type(L, i) != LUA_TNUMBER || x != std::floor(x) || std::isinf(x))
    fail("index: a position must be an integer, got {}{}", describe(L, i),
         lua_type(L, i) == LUA_TSTRING ? "; a string is the whole index, x[':, 1']" : "");
  if (std::fabs(x) > 9007199254740992.0)
    fail("index: a position must be an integer within 2^53, got {}", show(x));
  return int64_t(x);
}

int64_t index_position(int64_t i, int64_t size, int dim) {
  if (i == 0) fail("index: 0 is not a position; positions count from 1, and from -1 at the end");
  if (i > size || i < -size)
    fail("index: position {} is outside {} (dimension {})", i,
         size > 0 ? fmt::format("1..{}", size) : "a size of 0", dim + 1);
  return i > 0 ? i - 1 : i + size;
}

void fail_positions(const char* name, int64_t n, const Tensor& x) {
  fail("{}: {} position{} for a tensor of {} dimension{}, {}", name, n, n == 1 ? "" : "s", x.dim(),
       x.dim() == 1 ? "" : "s", to_string(x.shape()));
}

At range_in(int64_t from, int64_t to, int64_t step, int64_t size, int dim, const char* name) {
  if (step < 1) fail("{}: the step is {}, it must be at least 1", name, step);
  const int64_t first = from < 0 ? from + size + 1 : from, last = to < 0 ? to + size + 1 : to;
  if (first == last + 1 && first >= 1 && last <= size) return {At::range, last, 0};
  if (first < 1 || last > size || first > last)
    fail("{}: the range {}..{} does not lie inside 1..{} (dimension {}){}", name, from, to, size,
         dim + 1,
         from && to ? "" : "; 0 is not a position: they count from 1, and from -1 at the end");
  return {At::range, first - 1, (last - first) / step + 1, step};
}

namespace {

/// An entry as written, before the sizes are known.
struct KeyEntry {
  enum Kind : uint8_t { number, keep, range, all, newaxis, ellipsis, tensor } kind;
  int64_t first, last, step;
  const Tensor* at;
};

constexpr int kMaxEntries = 2 * kMaxDims + 1;

/// The entries of a key. Tensors belong to the Lua values, which the key keeps alive.
struct Key {
  int n = 0;
  KeyEntry entry[kMaxEntries];

  void add(KeyEntry::Kind kind, int64_t first = 0, int64_t last = 0, int64_t step = 1,
           const Tensor* at = nullptr) {
    if (n == kMaxEntries) fail("index: more than {} entries", kMaxEntries);
    entry[n++] = {kind, first, last, step, at};
  }
  void add_tensor(const Tensor& t) {
    if (t.dim() == 0 && t.dtype() != Dtype::b8 && !is_float(t.dtype()))
      return add(KeyEntry::number, t.at_integer(0));  // as in PyTorch: a view
    add(KeyEntry::tensor, 0, 0, 1, &t);
  }
};

bool is_marker(lua_State* L, int i, const char& marker) {
  return lua_type(L, i) == LUA_TLIGHTUSERDATA && lua_touserdata(L, i) == &marker;
}

// ---- tables -------------------------------------------------------------------------------------

/// Reads {}, {first, last[, step]} or {k}.
void read_range(lua_State* L, int item, Key& key) {
  const int n = int(lua_objlen(L, item));
  if (has_other_keys(L, item, n)) check_keys(L, item, n, "index", "the range");
  if (n == 0) return key.add(KeyEntry::all);
  if (n > 3)
    fail(
        "index: a range is {{first, last}} or {{first, last, step}}, this one has {} numbers; a "
        "list of positions must be a tensor, mt.tensor({{..}}, 'int64')",
        n);
  int64_t v[3] = {0, 0, 1};
  each_entry(L, item, [&](int k) { v[k - 1] = index_number(L, -1); });
  key.add(n == 1 ? KeyEntry::keep : KeyEntry::range, v[0], v[1], v[2]);
}

void read_table(lua_State* L, int table, Key& key) {
  const int n = int(lua_objlen(L, table));
  if (has_other_keys(L, table, n)) check_keys(L, table, n, "index", "the table");
  each_entry(L, table, [&](int) {
    const int item = lua_gettop(L);
    if (lua_type(L, item) == LUA_TNUMBER) key.add(KeyEntry::number, index_number(L, item));
    else if (lua_type(L, item) == LUA_TTABLE) read_range(L, item, key);
    else if (is_marker(L, item, kNewaxis)) key.add(KeyEntry::newaxis);
    else if (is_marker(L, item, kEllipsis)) key.add(KeyEntry::ellipsis);
    else if (const Tensor* t = tensor_at(L, item)) key.add_tensor(*t);
    else if (lua_isnil(L, item)) check_keys(L, table, n, "index", "the table");
    else index_number(L, item);  // throws its error
  });
}

// ---- strings ------------------------------------------------------------------------------------

/// Parses '1:3, :, -1': entries between commas, each a number, a range first:last[:step] with
/// optional ends, '...', 'None' or 'newaxis'.
class Text {
 public:
  Text(std::string_view text, Key& key)
      : begin_(text.data()),
        at_(begin_),
        end_(begin_ + text.size()),
        key_(key) {}

  void read() {
    for (;;) {
      entry();
      if (next() == '\0') return;
      if (*at_ != ',') syntax_error();
      ++at_;
      if (next() == '\0') return;  // a trailing comma, as in Python
    }
  }

 private:
  /// The next character that is not a blank; '\0' at the end.
  char next() {
    while (at_ < end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\n')) ++at_;
    return at_ < end_ ? *at_ : '\0';
  }
  bool word(const char* w) {
    const size_t n = std::strlen(w);
    if (size_t(end_ - at_) < n || std::memcmp(at_, w, n) != 0) return false;
    at_ += n;
    return true;
  }
  bool starts_number() {
    const char c = next();
    return c == '-' || (c >= '0' && c <= '9');
  }
  int64_t number() {
    const char* const start = at_;
    const bool negative = *at_ == '-';
    if (negative) ++at_;
    int64_t v = 0;
    int digits = 0;
    for (; at_ < end_ && *at_ >= '0' && *at_ <= '9'; ++at_, ++digits)
      v = digits < 16 ? 10 * v + (*at_ - '0') : v;
    if (digits == 0 || digits > 15) at_ = start, syntax_error();
    return negative ? -v : v;
  }
  void entry() {
    next();
    if (word("...")) return key_.add(KeyEntry::ellipsis);
    if (word("None") || word("newaxis")) return key_.add(KeyEntry::newaxis);
    int64_t first = 1, last = -1, step = 1;
    if (starts_number()) {
      first = number();
      if (next() != ':') return key_.add(KeyEntry::number, first);
    }
    if (next() != ':') syntax_error();
    ++at_;
    if (starts_number()) last = number();
    if (next() == ':') {
      ++at_;
      if (starts_number()) step = number();
    }
    if (first == 1 && last == -1 && step == 1) return key_.add(KeyEntry::all);
    key_.add(KeyEntry::range, first, last, step);
  }
  [[noreturn]] void syntax_error() {
    const std::string text(begin_, end_);
    if (next() == '\0')
      fail("index: '{}' ends where an entry is expected; write for example '1:3, :, -1'", text);
    fail("index: '{}' cannot be read at character {}, '{}'; write for example '1:3, :, -1'", text,
         at_ - begin_ + 1, std::string(at_, end_));
  }

  const char *const begin_, *at_, *const end_;
  Key& key_;
};

void read_key(lua_State* L, int i, Key& key) {
  switch (lua_type(L, i)) {
    case LUA_TNUMBER: return key.add(KeyEntry::number, index_number(L, i));
    case LUA_TTABLE: return read_table(L, i, key);
    case LUA_TSTRING: return Text(text_at(L, i), key).read();
    default: break;
  }
  if (is_marker(L, i, kNewaxis)) return key.add(KeyEntry::newaxis);
  if (is_marker(L, i, kEllipsis)) return key.add(KeyEntry::ellipsis);
  if (const Tensor* t = tensor_at(L, i)) return key.add_tensor(*t);
  fail(
      "index: {} is not an index; use a number, a table such as {{ {{1, 3}}, {{}} }}, a string such "
      "as '1:3, :' or a tensor",
      describe(L, i));
}

// ---- from the entries as written to the engine's entries ----------------------------------------

/// The number of dimensions that an entry indexes.
int consumed_dims(const KeyEntry& e) {
  if (e.kind == KeyEntry::newaxis || e.kind == KeyEntry::ellipsis) return 0;
  return e.kind == KeyEntry::tensor && e.at->dtype() == Dtype::b8 ? e.at->dim() : 1;
}

/// Converts the key to the engine's entries for x; returns their number.
int resolve(const Key& key, const Tensor& x, At* at) {
  int consumed = 0, ellipses = 0, n = 0, dim = 0;
  for (int k = 0; k < key.n; ++k) {
    consumed += consumed_dims(key.entry[k]);
    ellipses += key.entry[k].kind == KeyEntry::ellipsis;
  }
  if (consumed > x.dim() && x.dim() == 0)
    fail("index: a 0-d tensor has no positions; use x:item()");
  if (consumed > x.dim()) fail_positions("index", consumed, x);
  if (ellipses > 1) fail("index: only one mt.ellipsis can be used");
  for (int k = 0; k < key.n; ++k) {
    const KeyEntry& e = key.entry[k];
    switch (e.kind) {
      case KeyEntry::number: at[n++] = {At::pick, index_position(e.first, x.size(dim), dim)}; break;
      case KeyEntry::keep: at[n++] = {At::range, index_position(e.first, x.size(dim), dim)}; break;
      case KeyEntry::range:
        at[n++] = range_in(e.first, e.last, e.step, x.size(dim), dim, "index");
        break;
      case KeyEntry::all: at[n++] = {At::skip, 0, 1}; break;
      case KeyEntry::newaxis: at[n++] = {At::newaxis}; break;
      case KeyEntry::ellipsis:
        at[n++] = {At::skip, 0, x.dim() - consumed};
        dim += x.dim() - consumed;
        break;
      case KeyEntry::tensor:
        at[n++] = {e.at->dtype() == Dtype::b8 ? At::mask : At::positions, 0, 1, 1, e.at, 1};
        break;
    }
    dim += consumed_dims(e);
  }
  return n;
}

}  // namespace

bool has_other_keys(lua_State* L, int index, int n) {
  int keys = 0;
  for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1))
    if (++keys > n) return lua_pop(L, 2), true;
  return false;
}

bool is_index(lua_State* L, int key) {
  if (lua_type(L, key) != LUA_TSTRING) return true;
  const std::string_view word = text_at(L, key);
  const auto has = [word](std::string_view part) { return word.find(part) != word.npos; };
  return word.starts_with('-') || (!word.empty() && std::isdigit(word[0])) || word == "None" ||
         word == "newaxis" || has(":") || has(",") || has("...");
}

/// The offset of x[{i, j, ..}] in its storage, for one position per dimension; else empty.
static std::optional<int64_t> element_offset(lua_State* L, int key, const Tensor& x) {
  const int n = x.dim();
  if (n == 0 || lua_type(L, key) != LUA_TTABLE || int(lua_objlen(L, key)) != n) return {};
  if (has_other_keys(L, key, n)) return {};
  int64_t at = x.offset();
  for (int d = 0; d < n; ++d) {
    lua_rawgeti(L, key, d + 1);
    const bool number = lua_type(L, -1) == LUA_TNUMBER;
    if (number) at += index_position(index_number(L, -1), x.size(d), d) * x.stride(d);
    lua_pop(L, 1);
    if (!number) return {};
  }
  return at;
}

/// Whether writing `value` into a part of x must be recorded in the graph of gradients.
static bool is_recorded(const Tensor& x, const Tensor* value) {
  const TensorImpl* base = x.impl()->base;
  return grad_enabled() &&
         (x.requires_grad() || (base && base->requires_grad) || (value && value->requires_grad()));
}

bool write_element(lua_State* L, int key, const Tensor& x, int value) {
  if (step_recorder) return false;  // it records verbs
  const Tensor* t = tensor_at(L, value);
  const bool plain = t ? t->dim() == 0 && t->dtype() == x.dtype() && is_cpu(t->device())
                       : lua_type(L, value) == LUA_TNUMBER;
  if (!plain || !is_cpu(x.device()) || is_recorded(x, t)) return false;
  const std::optional<int64_t> at = element_offset(L, key, x);
  if (!at) return false;
  check_writable("assignment", x);
  char* to = static_cast<char*>(x.impl()->storage->data) + *at * item_size(x.dtype());
  if (t) {
    std::memmove(to, t->data(), item_size(x.dtype()));
  } else {
    const double number = lua_tonumber(L, value);
    check_value("assignment", number, x.dtype());
    with_dtype(x.dtype(), [&](auto zero) {
      *reinterpret_cast<decltype(zero)*>(to) = math::convert<decltype(zero)>(number);
    });
  }
  bump(x);
  return true;
}

Tensor read_index(lua_State* L, int i, const Tensor& x) {
  if (!wants_grad(x))
    if (const std::optional<int64_t> at = element_offset(L, i, x)) return view_of(x, {}, {}, *at);
  if (lua_type(L, i) == LUA_TNUMBER && x.dim() > 0) {
    const At at{At::pick, index_position(index_number(L, i), x.size(0), 0)};
    return index(x, &at, 1);
  }
  Key key;
  read_key(L, i, key);
  At at[kMaxEntries];
  return index(x, at, resolve(key, x, at));
}

void write_index(lua_State* L, int i, const Tensor& x, const Tensor& value, bool accumulate,
                 const char* name) {
  Key key;
  read_key(L, i, key);
  At at[kMaxEntries];
  index_put_(name, x, at, resolve(key, x, at), value, accumulate);
}

}  // namespace mt::lua
