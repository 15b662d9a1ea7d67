// parcel.h -- Lua values outside of any Lua state, on their way from one thread to another
#pragma once
#include "bindings/core/lua.h"

namespace mt::lua {

/// Copies of numbers, strings, booleans, nil, tables of such values (which may hold one another) and
/// tensors, which share their memory and leave their graph. Anything else is an error that names its path.
class Parcel {
 public:
  Parcel() = default;
  /// The values at stack indices first .. last.
  Parcel(lua_State* L, int first, int last);
  /// Pushes the values; their number. Only inside functions made by push_closure.
  int push(lua_State* L) const;
  /// Whether both hold equal values, and the same tensors.
  bool same(const Parcel&) const;

 private:
  class Writer;
  class Reader;
  int count_ = 0;
  std::string bytes_;
  TensorList tensors_;
};

}  // namespace mt::lua
