// advice.h -- the advice of errors about an unknown name
#pragma once

#include <string>
#include <vector>

#include "bindings/core/lua.h"

namespace mt::lua {

/// "; here it is workers", " (did you mean 'lr'?)" or "", from bindings/lua/core/advice.lua.
/// `owner` is the object without that name ("DataLoader", "tensor"), `names` are its names.
std::string advice(lua_State* L, const std::string& owner, const std::string& name,
                   const std::vector<std::string>& names);

}  // namespace mt::lua
