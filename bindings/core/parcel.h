// parcel.h -- Lua values outside of any Lua state, for the transfer from one thread to another
#pragma once
#include "bindings/core/lua.h"

namespace mt::lua {

/// Copies of numbers, strings, booleans, nil, tables of such values (also with cycles) and tensors,
/// which share their memory and are detached. Other values are errors with the value's path.
class Parcel {
 public:
  Parcel() = default;
  /// The values at stack indices first .. last.
  Parcel(lua_State* L, int first, int last);
  /// Pushes the values and returns their number. To be called in functions of push_closure only.
  int push(lua_State* L) const;
  /// Whether both contain equal values, and the same tensors.
  bool same(const Parcel&) const;

 private:
  class Writer;
  class Reader;
  int count_ = 0;
  std::string bytes_;
  TensorList tensors_;
};

}  // namespace mt::lua
