// record.h -- core.record: a Lua function that is called before and after calls of the library
#pragma once
#include "bindings/core/lua.h"

namespace mt::lua {

/// Whether calls of this thread are reported to a function.
extern constinit thread_local bool recording [[gnu::tls_model("initial-exec")]];

/// Runs a call whose arguments are already bound. The function is called before it with (depth,
/// name, signature, arguments..), and after it with (depth, nil, nil, results..). Its own calls are
/// not reported, and its errors are propagated to the caller.
int record_call(Args&, int (*run)(Args&));

/// core.record and core.identity.
void add_record(lua_State*);

}  // namespace mt::lua
