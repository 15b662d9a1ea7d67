// profile.cpp -- the profiler for bindings/lua/tools/profile.lua: recordings as Lua tables
#include "engine/profile/profile.h"

#include "bindings/functions/functions.h"
#include "engine/compile/builder.h"
#include "engine/profile/verb_log.h"

namespace mt::lua {
namespace {

/// A recording around a call, ended however that ends.
class Recorded {
 public:
  explicit Recorded(bool trace) { profile::start(trace); }
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;
  ~Recorded() {
    if (!ended_) profile::stop();
  }
  profile::Report end() {
    ended_ = true;
    return profile::stop();
  }

 private:
  bool ended_ = false;
};

int push_report(const Args& a, const profile::Report& report) {
  lua_State* L = a.L;
  auto set = [L](const char* key) { lua_setfield(L, -2, key); };
  lua_createtable(L, int(report.rows.size()), 4);
  for (size_t i = 0; i < report.rows.size(); ++i) {
    const profile::Row& row = report.rows[i];
    lua_createtable(L, 0, 8);
    a.push(row.name), set("name");
    a.push(std::string(kind_name(row.kind))), set("kind");
    a.push(double(row.calls)), set("calls");
    a.push(row.self_cpu), set("self_cpu");
    a.push(row.cpu_total), set("cpu_total");
    a.push(row.self_gpu), set("self_cuda");
    a.push(row.gpu_total), set("cuda_total");
    lua_rawseti(L, -2, int(i + 1));
  }
  a.push(report.wall), set("wall");
  a.push(report.outside), set("outside");
  if (report.trace.empty()) return 1;
  a.push(report.trace), set("trace");
  a.push(double(report.left_out)), set("left_out");
  return 1;
}

int push_calls(const Args& a, const std::vector<profile::VerbCall>& calls) {
  lua_State* L = a.L;
  const auto set = [&a, L](const char* key, double value) {
    a.push(value);
    lua_setfield(L, -2, key);
  };
  lua_createtable(L, int(calls.size()), 0);
  for (size_t i = 0; i < calls.size(); ++i) {
    lua_createtable(L, 0, 8);
    a.push(calls[i].text), lua_setfield(L, -2, "text");
    if (const Program* const p = calls[i].program)
      a.push(ir::text_of(*p)), lua_setfield(L, -2, "program");
    set("us", calls[i].microseconds);
    set("loops", double(calls[i].work.loops));
    set("pieces", double(calls[i].work.pieces));
    set("threads", double(calls[i].work.threads));
    set("products", double(calls[i].work.products));
    set("onednn", double(calls[i].work.onednn));
    set("elements", double(calls[i].work.elements));
    lua_rawseti(L, -2, int(i + 1));
  }
  return 1;
}

const Entry kProfile[] = {
    {"verbs_call(fn)", "The verbs that fn() called, and what it returned.",
     [](Args& a) {
       a.function(1);
       profile::VerbCalls watching;
       lua_pushvalue(a.L, 1);
       lua_call(a.L, 0, LUA_MULTRET);
       push_calls(a, watching.calls);
       lua_insert(a.L, 2);
       return lua_gettop(a.L) - 1;
     }},
    {"profile_call(fn, trace=false)", "What fn() did, and what it returned.",
     [](Args& a) {
       a.function(1);
       Recorded recorded(a.boolean(2));
       lua_pushvalue(a.L, 1);
       lua_call(a.L, 0, LUA_MULTRET);
       push_report(a, recorded.end());
       lua_insert(a.L, 3);
       return lua_gettop(a.L) - 2;
     }},
    {"profile_start(trace=false)", "Starts a recording.",
     [](Args& a) {
       profile::start(a.boolean(1));
       return 0;
     }},
    {"profile_stop()", "What happened since, or nothing where no recording is under way.",
     [](Args& a) { return profile::depth() > 0 ? push_report(a, profile::stop()) : 0; }},
};

}  // namespace

void add_profile(lua_State* L) {
  for (const Entry& e : kProfile) e.internal = true;
  add(L, kProfile);
}

}  // namespace mt::lua
