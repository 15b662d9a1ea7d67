// advice.h -- the advice of errors about an unknown name, and hints at what is seldom meant
#pragma once

#include <string>
#include <vector>

#include "bindings/core/lua.h"

namespace mt::lua {

/// "; here it is workers", " (did you mean 'lr'?)" or "", from bindings/lua/core/advice.lua.
/// `owner` is the object without that name ("DataLoader", "tensor"), `names` are its names.
std::string advice(lua_State* L, const std::string& owner, const std::string& name,
                   const std::vector<std::string>& names);

/// Writes a sentence to stderr, once for each line of the script, about what is valid but probably not meant.
void hint(const std::string& sentence);
/// The hint at softmax or argmax along a first dimension of one element, all of whose results are the same.
void hint_single(const char* operation, const Tensor& x, int64_t dim, int result);

}  // namespace mt::lua
