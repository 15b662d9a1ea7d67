// profile.cpp -- what a program does, for Lua: recordings of the profiler, autograd graphs, the time, the process
#include "engine/profile/profile.h"

#include <unistd.h>

#include <chrono>

#include "bindings/functions/functions.h"
#include "engine/autograd/describe.h"
#ifdef MT_WITH_COMPILER
#include "engine/compiler/cuda/program_cuda.h"
#include "engine/compiler/program/builder.h"
#endif
#include "engine/profile/verb_log.h"

namespace mt::lua {
namespace {

/// A recording around a call; it ends also after an error.
class ProfileScope {
 public:
  explicit ProfileScope(bool trace) { profile::start(trace); }
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;
  ~ProfileScope() {
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
  push_list(a.L, report.rows, [&](const profile::Row& row) {
    lua_createtable(a.L, 0, 8);
    a.set("name", row.name), a.set("kind", kind_name(row.kind)), a.set("calls", row.calls);
    a.set("self_cpu", row.self_cpu), a.set("cpu_total", row.cpu_total);
    a.set("self_cuda", row.self_gpu), a.set("cuda_total", row.gpu_total);
  });
  a.set("wall", report.wall), a.set("outside", report.outside);
  if (report.trace.empty()) return 1;
  a.set("trace", report.trace), a.set("left_out", report.left_out);
  return 1;
}

int push_calls(const Args& a, const std::vector<profile::VerbCall>& calls) {
  push_list(a.L, calls, [&](const profile::VerbCall& call) {
    const CpuCounters& work = call.work;
    lua_createtable(a.L, 0, 8);
    a.set("text", call.text), a.set("us", call.microseconds);
#ifdef MT_WITH_COMPILER
    if (call.run) {
      a.set("program", ir::text_of(*call.run->program));
      if (const std::string text = cuda_text(*call.run); !text.empty()) a.set("cuda", text);
    }
#endif
    a.set("loops", work.loops), a.set("pieces", work.pieces), a.set("threads", work.threads);
    a.set("products", work.products), a.set("onednn", work.onednn);
    a.set("elements", work.elements);
  });
  return 1;
}

const Entry kProfile[] = {
    {"verbs_call(fn)", "The verbs that fn() called, and its results.",
     [](Args& a) {
       profile::VerbCalls log;
       const int results = a.call_function(1);
       push_calls(a, std::exchange(log.calls, {}));  // a finalizer may call verbs meanwhile
       lua_insert(a.L, 1);
       return results + 1;
     }},
    {"profile_call(trace, fn)", "A recording of fn(), and its results.",
     [](Args& a) {
       ProfileScope scope(a.boolean(1));
       const int results = a.call_function(2);
       push_report(a, scope.end());
       lua_insert(a.L, 2);
       return results + 1;
     }},
    {"profile_start(trace=false)", "Starts a recording.", bind<profile::start>},
    {"profile_stop()", "Ends the recording and returns it, or nothing if there is none.",
     [](Args& a) { return profile::depth() > 0 ? push_report(a, profile::stop()) : 0; }},
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
    {"wall_time()", "Seconds since 1970.", bind<[] {
       const auto now = std::chrono::system_clock::now().time_since_epoch();
       return std::chrono::duration<double>(now).count();
     }>},
    {"process_id()", "The id of this process.", bind<[] { return int64_t(getpid()); }>},
};

}  // namespace

void add_profile(lua_State* L) { add_internal(L, kProfile); }

void add_watch(lua_State* L) { add_internal(L, kWatchParts); }

}  // namespace mt::lua
