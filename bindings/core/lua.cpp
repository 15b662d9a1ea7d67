// lua.cpp -- the wrapper of every call: errors at the user's line, pressure on the garbage collector
#include "bindings/core/lua.h"

#include <algorithm>
#include <cmath>
#include <new>

#include "bindings/core/autocast.h"
#include "bindings/core/indexing.h"
#include "engine/autograd/graph.h"
#include "engine/core/async_errors.h"
#include "engine/core/step_listener.h"
#include "engine/profile/profile.h"
#include "kernels/cpu/pool/parallel.h"

namespace mt::lua {

const char kMetatable = 0;

// ---- the guard ----------------------------------------------------------------------------------

namespace {

constexpr int64_t kMiB = 1 << 20, kUncharged = 512 * kMiB;
/// The state of this thread's calls.
struct CallState {
  lua_State* collectable = nullptr;  // of the current call: another one may be closed
  const Entry* entry = nullptr;      // the function of the current call
  int depth = 0;                     // the depth of nested calls
  int64_t gc_charged = 0;            // bytes for which the collector has already been run
  int64_t gc_storages = 0;           // the same for storages
};
constinit thread_local CallState calls;

/// The collector does not see tensors' memory: allocations beyond a slack are charged to it. A
/// cycle costs 0.1 us per KiB of Lua's heap, and garbage evicts live data from the caches, so the
/// slack is 8 times the heap, from 1 to 256 MiB (with at most 32, a perceptron's steps next to 32
/// MiB of words took 2.4 times as long):
/// - Storages are then reused while they are in the L2 cache. Those of 32 KiB and more get one MiB
///   more: few share a cycle, and long loops prefetch what that cache has evicted.
/// - If they are not, as the slack exceeds that cache or storages have half a MiB, they evict the
///   heap too, and a cycle costs 0.7 us per KiB: the slack is 64 times the heap, from 12 to 64 MiB.
///   With 12 MiB cycles took a fifth of MobileNetV2's inference by two threads (heap: 1 MiB). More
///   than 12 MiB next to a small heap would leave less of the shared cache to others (20 MiB: 5 %
///   slower next to another program's calls). It stays at 12 MiB for storages of half a MiB next to
///   a heap of up to one MiB per thread, as missing that cache costs up to 70 us per MiB (x + v of
///   4 MiB next to 660 KiB: 430 us, and 640 with 42 MiB; a training step of smaller ones takes 7 %
///   longer with 12). Storages of 2 MiB next to a small heap are reused at once: 32 times the heap,
///   from 4 MiB on (-x of 4 MiB next to 136 KiB: 250 us with 12 MiB, 165 with 4).
/// - A program's first 512 MiB are excepted: memory that is touched for the first time costs 0.6 ms
///   per MiB, as much as ten cycles (50 epochs of split took 1.7 times as long).
void apply_gc_pressure(lua_State* L) {
  const int64_t debt = bytes_allocated() - calls.gc_charged;
  const int64_t storages = memory_use().allocations;
  const int64_t average = debt / std::max<int64_t>(1, storages - calls.gc_storages);
  const int64_t heap = int64_t(lua_gc(L, LUA_GCCOUNT, 0)) << 10;
  const int64_t wanted = 8 * heap + (average < 32 << 10 ? 0 : kMiB);
  const bool warm = average < kMiB / 2 && wanted <= 3 * kMiB;
  const bool misses = average >= kMiB / 2 && heap * cpu_threads() <= kMiB;
  const int64_t missed =
      average < 2 * kMiB ? 12 * kMiB : std::clamp(32 * heap, 4 * kMiB, 12 * kMiB);
  const int64_t least = bytes_allocated() <= kUncharged ? kMiB
                        : misses                        ? missed
                                 : std::clamp(64 * heap, 12 * kMiB, 64 * kMiB);
  if (debt < (warm ? std::max(wanted, kMiB) : std::clamp(8 * heap, least, 256 * kMiB))) return;
  const profile::Scope scope(profile::Kind::collector, 1, [] { return "collect garbage"; });
  // One whole cycle: its garbage is free at the end, while the memory is still in the cache.
  const int step = int(std::min<int64_t>(debt >> 10, 1 << 20));
  {
    const FreeBatch batch;
    while (lua_gc(L, LUA_GCSTEP, step) == 0) {}
  }
  calls.gc_charged = bytes_allocated(), calls.gc_storages = storages;
}

struct CallScope {
  explicit CallScope(lua_State* L)
      : before(std::exchange(calls.collectable, L)),
        entry(calls.entry) {
    ++calls.depth;
  }
  CallScope(const CallScope&) = delete;
  ~CallScope() {
    calls.collectable = before, calls.entry = entry;
    --calls.depth;
  }
  lua_State* const before;
  const Entry* const entry;
};

void check_stack() {
  if (!c_stack_left())
    fail("stack overflow: {} calls are under way inside one another; does a function call itself?",
         calls.depth);
}

/// Whether a value on the stack from `first` to `last` explains a NaN (or infinity) in a result: a tensor that has one,
/// or a number that is not finite, as in masked_fill(x, mask, -math.huge).
bool any_anomaly(lua_State* L, int first, int last) {
  for (int i = first; i <= last; ++i) {
    if (const Tensor* t = tensor_at(L, i); t && is_anomalous(*t)) return true;
    if (lua_type(L, i) == LUA_TNUMBER && !std::isfinite(lua_tonumber(L, i))) return true;
  }
  return false;
}

/// A call while debugging: a NaN in a result is an error if no argument has one; with set_detect_anomaly also an
/// infinity.
int run_debugged(Args& args) {
  lua_State* L = args.L;
  const std::string& name = args.called();
  const bool checks =
      tensor_at(L, 1) && !(args.entry().body.facts & kUnset) && !any_anomaly(L, 1, lua_gettop(L));
  const int results = run_cast(args, autocast_class(args.entry()));
  if (checks && thread_state.debugging)
    for (int i = lua_gettop(L) - results + 1; i <= lua_gettop(L); ++i)
      if (const Tensor* t = tensor_at(L, i)) check_anomaly(*t, name + ":");
  return results;
}

bool collect_garbage() {
  if (!calls.collectable) return false;
  lua_gc(calls.collectable, LUA_GCCOLLECT, 0);
  return true;
}

/// Whether errors of other operations keep their names: those of the called function, and those of
/// the Lua library's own helpers.
bool keeps_names(const Entry& e) {
  return (e.body.facts & kKeepsNames) || e.internal.load(std::memory_order_relaxed);
}

const char* function_under_way() {  // for later errors
  if (!calls.entry || keeps_names(*calls.entry)) return nullptr;
  return signature_of(*calls.entry).name.c_str();
}

std::string where() {
  std::string place = calls.collectable ? position(calls.collectable) : "";
  while (!place.empty() && (place.back() == ' ' || place.back() == ':')) place.pop_back();
  return place;
}

int run_body(Args& args) {
  if (thread_state.debugging) [[unlikely]]
    return run_debugged(args);
  if (const AutocastClass c = autocast_class(args.entry()); c != AutocastClass::none)
    return run_cast(args, c);
  return args.entry().body(args);
}

/// The error if C++ had no memory for its own lists, whose size is unknown. Garbage is collected
/// first, so that there is memory for the message.
std::string no_memory(lua_State* L, const std::string& before) {
  lua_gc(L, LUA_GCCOLLECT, 0);
  return fmt::format(
      "{}out of memory: the system has no more for this process; {} bytes live in "
      "tensors, {} KiB in Lua; use smaller batches or drop references",
      before, memory_use().live, lua_gc(L, LUA_GCCOUNT, 0));
}

int run_now(Args& args) {
  return args.out() ? run_into(args, args.out(), run_body) : run_body(args);
}

int run_entry(lua_State* L) {
  const Entry& e = *static_cast<const Entry*>(lua_touserdata(L, lua_upvalueindex(1)));
  Args args(L, e);
  calls.entry = &e;
  try {
    // Elementwise operations with positional operands need no binding of arguments.
    if (e.op < 0 || lua_gettop(L) != op_row(e.op).inputs || lua_type(L, -1) == LUA_TTABLE)
      args.bind_arguments();
    if (step_recorder) [[unlikely]] {
      if (e.body.facts & kWantsNumbers) check_may_read();
      if (e.reaches_out || (e.body.facts & kReachesOut)) step_recorder->on_external_effect();
      report_arguments(L);
    }
    if (recording) [[unlikely]]
      return record_call(args, run_now);
    return run_now(args);
  } catch (const Error& error) {
    check_dot(L, e);
    if (keeps_names(e)) throw;
    throw Error(named(name_of(e), error.what()));
  } catch (const std::bad_alloc&) { throw Error(no_memory(L, name_of(e) + ": ")); }
}

}  // namespace

lua_State* current_state() { return calls.collectable; }
void check_dot(lua_State* L, const Entry& e) {
  const std::string name = name_of(e);
  for (int i = 1; i <= 2; ++i) {  // the second if options are below it
    if (!lua_istable(L, i) || !luaL_getmetafield(L, i, "__module")) continue;
    const std::string module(text_at(L, -1));
    push_text(L, name);
    lua_rawget(L, i);
    const bool is_member = !lua_isnil(L, -1);
    lua_pop(L, 2);
    if (is_member)
      throw Error(fmt::format("{0}: functions are called with a dot, {1}.{0}(..)", name, module));
  }
}
void check_may_read() {
  if (!step_recorder) return;
  lua_State* const L = calls.collectable;
  lua_Debug frame;
  const bool known = lua_getstack(L, 1, &frame) && lua_getinfo(L, "S", &frame);
  step_recorder->on_element_read(known ? std::string(library_file(frame)) : "");
}
void report_arguments(lua_State* L) {
  for (int i = lua_gettop(L); i > 0; --i) {
    if (const Tensor* t = tensor_at(L, i)) step_recorder->on_use(*t);
    if (!lua_istable(L, i)) continue;
    each_entry(L, i, [&](int) {
      if (const Tensor* t = tensor_at(L, -1)) step_recorder->on_use(*t);
    });
  }
}

void set_host() {
  static const bool once = [] {
    host.calls_under_way = [] { return calls.depth; };
    host.collect_garbage = collect_garbage;
    host.where = where, host.function = function_under_way;
    return true;
  }();
  (void)once;
}

int guarded(lua_State* L, int (*body)(lua_State*)) {
  std::string what;
  try {
    check_interrupt();
    if (bytes_allocated() - calls.gc_charged > kMiB && !capturing) apply_gc_pressure(L);
    const CallScope scope(L);
    if (calls.depth > 100) [[unlikely]]
      check_stack();
    const int results = body(L);
    if (gpus_in_use) [[unlikely]]
      after_call(L);
    check_interrupt();
    return results;
  } catch (const std::bad_alloc&) {
    what = no_memory(L, "");
  } catch (const std::exception& e) {  // never `...`: that would swallow Lua's own errors
    what = mt_interrupted ? kInterrupted : shortened(e.what());
  }
  if (mt_interrupted) lua_sethook(L, nullptr, 0, 0);  // already reported; removes the hook
  lua_settop(L, 0);
  what = position(L) + what;
  push_text(L, what);
  return -1;
}

/// A call under the profiler; the library's own helpers count as part of their caller.
static int profiled(lua_State* L) {
  const Entry& e = *static_cast<const Entry*>(lua_touserdata(L, lua_upvalueindex(1)));
  if (e.internal.load(std::memory_order_relaxed)) return guarded(L, run_entry);
  const profile::Scope scope(profile::Kind::operation, uint64_t(&e), [&] { return name_of(e); });
  return guarded(L, run_entry);
}

int call(lua_State* L) {
  const int results = profile::on ? profiled(L) : guarded(L, run_entry);
  return results < 0 ? lua_error(L) : results;
}

void push_registered(lua_State* L, const char* key) {
  lua_pushlightuserdata(L, const_cast<char*>(key));
  lua_rawget(L, LUA_REGISTRYINDEX);
}
void set_registered(lua_State* L, const char* key) {
  lua_pushlightuserdata(L, const_cast<char*>(key));
  lua_insert(L, -2);
  lua_rawset(L, LUA_REGISTRYINDEX);
}

void push_closure(lua_State* L, lua_CFunction function, const Entry* e) {
  lua_pushlightuserdata(L, const_cast<Entry*>(e));
  push_registered(L, &kMetatable);
  lua_pushcclosure(L, function, 2);
}
const Entry* entry_at(lua_State* L, int i) {
  if (lua_tocfunction(L, i) != call || !lua_getupvalue(L, i, 1)) return nullptr;
  const Entry* e = static_cast<const Entry*>(lua_touserdata(L, -1));
  lua_pop(L, 1);
  return e;
}
void push_function(lua_State* L, const Entry& e) { push_closure(L, call, &e); }

/// __index of a table of internal functions. Upvalues: the entries, their number, __index for other names.
static int make_internal(lua_State* L) {
  const Entry* const entries = static_cast<const Entry*>(lua_touserdata(L, lua_upvalueindex(1)));
  const std::string_view key = text_at(L, 2);
  for (const Entry& e : std::span(entries, lua_tointeger(L, lua_upvalueindex(2)))) {
    if (name_of(e) != key) continue;
    push_function(L, e);
    lua_pushvalue(L, 2);
    lua_pushvalue(L, -2);
    lua_rawset(L, 1);
    return 1;
  }
  if (lua_isnil(L, lua_upvalueindex(3))) return 0;
  lua_pushvalue(L, lua_upvalueindex(3));
  lua_insert(L, 1);
  lua_call(L, 2, 1);
  return 1;
}

void add_internal(lua_State* L, std::span<const Entry> entries, Reach reach) {
  for (const Entry& e : entries) e.internal = true, e.reaches_out = reach == Reach::anything;
  if (!lua_getmetatable(L, -1)) lua_createtable(L, 0, 1);
  lua_pushlightuserdata(L, const_cast<Entry*>(entries.data()));
  lua_pushinteger(L, lua_Integer(entries.size()));
  lua_getfield(L, -3, "__index");
  lua_pushcclosure(L, make_internal, 3);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
}

}  // namespace mt::lua
