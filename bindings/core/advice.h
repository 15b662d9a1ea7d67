// advice.h -- what errors say of a name that is not there
#pragma once

#include <string>
#include <vector>

#include "bindings/core/lua.h"

namespace mt::lua {

/// "; here it is workers", " (did you mean 'lr'?)" or "", by bindings/lua/core/advice.lua. `owner` is what
/// lacks the name ("DataLoader", "tensor"), `names` are those that it has.
std::string advice(lua_State* L, const std::string& owner, const std::string& name,
                   const std::vector<std::string>& names);

}  // namespace mt::lua
