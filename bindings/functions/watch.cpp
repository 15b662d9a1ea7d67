// watch.cpp -- C functions for watching: autograd graphs as lists, a page for browsers
#include <unistd.h>

#include <chrono>

#include "bindings/functions/functions.h"
#include "engine/autograd/describe.h"
#include "engine/io/page_server.h"

namespace mt::lua {
namespace {

struct LivePage : PageServer {
  static constexpr char kShown[] = "a live page";
  using PageServer::PageServer;
};

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
    {"serve(operation, port)", "A page served on 127.0.0.1, and its port.",
     [](Args& a) {
       auto page = std::make_unique<LivePage>(a.text(1).c_str(), a.integer(2));
       return 1 + a.push(Userdata<LivePage>::push(a.L, std::move(page))->port());
     }},
    {"publish(page, text)", "Sets the page that browsers get.",
     bind<[](LivePage& page, const std::string& text) { page.publish(text); }>},
    {"idle(page)", "Seconds since the last request of a browser.",
     bind<[](const LivePage& page) { return page.idle(); }>},
    {"wait_fetched(page, seconds)", "Waits for a browser to fetch the page; whether it did.",
     bind<[](LivePage& page, double seconds) { return page.wait_fetched(seconds); }>},
    {"wall_time()", "Seconds since 1970.", bind<[] {
       const auto now = std::chrono::system_clock::now().time_since_epoch();
       return std::chrono::duration<double>(now).count();
     }>},
    {"process_id()", "The id of this process.", bind<[] { return int64_t(getpid()); }>},
};

}  // namespace

void add_watch(lua_State* L) { add_internal(L, kWatchParts); }

}  // namespace mt::lua
