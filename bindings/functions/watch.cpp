// watch.cpp -- the engine's side of watching: graphs of gradients as lists, a page for browsers
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "bindings/core/held.h"
#include "bindings/functions/functions.h"
#include "engine/autograd/describe.h"
#include "engine/io/page_server.h"

namespace mt::lua {
namespace {

struct LivePage : PageServer {
  static constexpr char kShown[] = "a live page";
  using PageServer::PageServer;
};

/// describe_graph(operation, x, most): a list of {name=, shape=, leaf=, elementwise=, inputs=}; inputs
/// are positions in the list, or false.
int describe_graph_body(Args& a) {
  lua_State* L = a.L;
  const std::vector<GraphEntry> all =
      describe_graph(a.text(1).c_str(), a.tensor(2), size_t(a.integer(3)));
  lua_createtable(L, int(all.size()), 0);
  for (size_t i = 0; i < all.size(); ++i) {
    const GraphEntry& e = all[i];
    const auto set = [&](const char* key) { lua_setfield(L, -2, key); };
    lua_newtable(L);
    a.push(e.name), set("name");
    a.push(e.elementwise), set("elementwise");
    if (e.leaf.defined()) a.push(e.leaf), set("leaf");
    if (e.shape) a.push(*e.shape), set("shape");
    lua_createtable(L, int(e.inputs.size()), 0);
    for (size_t k = 0; k < e.inputs.size(); ++k) {
      if (e.inputs[k] < 0) a.push(false);
      else a.push(double(e.inputs[k] + 1));
      lua_rawseti(L, -2, int(k + 1));
    }
    set("inputs");
    lua_rawseti(L, -2, int(i + 1));
  }
  return 1;
}

const Entry kParts[] = {
    {"describe_graph(operation, x, most)", "The operations and leaves that led to x, a list.",
     describe_graph_body},
    {"serve(operation, port)", "A page on 127.0.0.1; and its port.",
     [](Args& a) {
       const int64_t port = a.integer(2);
       if (port < 0 || port > 65535) fail("{}: port is {}, expected 0 to 65535", a.text(1), port);
       LivePage* page =
           Held<LivePage>::push(a.L, std::make_unique<LivePage>(a.text(1).c_str(), int(port)));
       return 1 + a.push(double(page->port()));
     }},
    {"publish(page, text)", "What browsers get from now on.",
     [](Args& a) {
       Held<LivePage>::at(a, 1).publish(a.text(2));
       return 0;
     }},
    {"idle(page)", "Seconds since a browser asked last.",
     [](Args& a) { return a.push(Held<LivePage>::at(a, 1).idle()); }},
    {"wait_fetched(page, seconds)", "Waits until a browser has the page; whether one has.",
     [](Args& a) { return a.push(Held<LivePage>::at(a, 1).wait_fetched(a.number(2))); }},
    {"wall_time()", "Seconds since 1970.", bind<[] {
       const auto now = std::chrono::system_clock::now().time_since_epoch();
       return std::chrono::duration<double>(now).count();
     }>},
    {"make_folder(operation, path)", "Makes a folder, and those around it, where they are missing.",
     bind<[](const std::string& operation, const std::string& path) {
       std::error_code trouble;
       std::filesystem::create_directories(path, trouble);
       if (trouble) fail("{}: cannot make the folder '{}': {}", operation, path, trouble.message());
     }>},
    {"process_id()", "The number of this process.", bind<[] { return int64_t(getpid()); }>},
};

}  // namespace

void push_watch(lua_State* L) {
  for (const Entry& e : kParts) e.internal = true;
  lua_newtable(L);
  add(L, kParts);
}

}  // namespace mt::lua
