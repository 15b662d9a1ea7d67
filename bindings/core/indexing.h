// indexing.h -- x[k] and x[k] = v: the keys that Lua may use between the brackets
#pragma once
#include "bindings/core/lua.h"

namespace mt::lua {

/// Whether the key is an index and not the name of a field: anything but a string, or a string with
/// ':', ',' or '...', one that begins like a number, or 'None'.
bool is_index(lua_State* L, int key);
/// x[k].
Tensor read_index(lua_State* L, int key, const Tensor& x);
/// x[k] = value; `accumulate`: x[k] = x[k] + value, even if positions repeat.
void write_index(lua_State* L, int key, const Tensor& x, const Tensor& value,
                 bool accumulate = false, const char* name = "assignment");

/// x[{i, j}] = v for a plain number or a 0-d tensor, if nothing is recorded and no conversion is
/// needed: writes directly; returns false if `write_index` has to do it.
bool write_element(lua_State* L, int key, const Tensor& x, int value);

/// An integer at a stack index.
int64_t index_number(lua_State* L, int i);
/// A position 1..size or -size..-1 of dimension `dim`, converted to 0-based.
int64_t index_position(int64_t i, int64_t size, int dim);
/// Throws Error for n positions given for the dimensions of x.
[[noreturn]] void fail_positions(const char* name, int64_t n, const Tensor& x);
/// The positions first to last, which must be in bounds; {k + 1, k} is empty.
At range_in(int64_t first, int64_t last, int64_t step, int64_t size, int dim, const char* name);
/// Whether a table of length n has more than n keys.
bool has_other_keys(lua_State* L, int index, int n);
/// Throws Error for a list with holes, or with keys other than 1..n.
void check_keys(lua_State* L, int index, int64_t n, const char* operation, const std::string& what);

}  // namespace mt::lua
