// watch.cpp -- C functions for watching: autograd graphs as lists, the time, the process
#include <unistd.h>

#include <chrono>

#include "bindings/functions/functions.h"
#include "engine/autograd/describe.h"

namespace mt::lua {
namespace {

/// describe_graph(operation, x, limit): a list of {name=, shape=, leaf=, elementwise=, inputs=};
/// inputs are indices into the list, or false.
int describe_graph_body(Args& a) {
  const std::vector<GraphEntry> all = describe_graph(a.text(1).c_str(), a.tensor(2), a.integer(3));
  push_list(a.L, all, [&](const GraphEntry& e) {
    lua_newtable(a.L);
    a.set("name", e.name), a.set("elementwise", e.elementwise);
    if (e.leaf.defined()) a.set("leaf", e.leaf);
    if (e.shape) a.set("shape", *e.shape);
    push_list(a.L, e.inputs, [&](int k) { k < 0 ? a.push(false) : a.push(k + 1); });
    lua_setfield(a.L, -2, "inputs");
  });
  return 1;
}

const Entry kWatchParts[] = {
    {"describe_graph(operation, x, limit)",
     "A list of the operations and leaves of the graph of x.", describe_graph_body},
    {"wall_time()", "Seconds since 1970.", bind<[] {
       const auto now = std::chrono::system_clock::now().time_since_epoch();
       return std::chrono::duration<double>(now).count();
     }>},
    {"process_id()", "The id of this process.", bind<[] { return int64_t(getpid()); }>},
};

}  // namespace

void add_watch(lua_State* L) { add_internal(L, kWatchParts); }

}  // namespace mt::lua
