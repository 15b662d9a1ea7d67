// workers.cpp -- the threads of a DataLoader: each runs data/worker.lua in its own Lua state; values between states
#include "bindings/functions/functions.h"

#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <system_error>
#include <thread>
#include <unordered_map>

#include "bindings/open.h"
#include "engine/autograd/graph.h"
#include "kernels/cpu/pool/serial_thread.h"

namespace mt::lua {
namespace {

// ---- Lua values outside of any Lua state ---------------------------------------------------------

/// The first byte of a value. Keys and values of a table follow it up to `end`; `repeated` is a
/// table that was written before, given by its number.
enum Tag : char { nil, no, yes, number, string, tensor, table, shape, repeated, end };
constexpr int kMaxDepth = 150;

/// The path of a value: keys of nested tables, at these stack indices.
struct Path {
  const Path* outer;
  int key;
};
std::string path_text(lua_State* L, const Path* p) {
  if (!p) return "the value";
  const bool named = lua_type(L, p->key) == LUA_TSTRING;
  return path_text(L, p->outer) + (named ? std::string(".") + lua_tostring(L, p->key)
                                         : fmt::format("[{}]", describe(L, p->key)));
}

/// Copies of numbers, strings, booleans, nil, tables of such values (also with cycles) and tensors,
/// which share their memory and are detached. Other values are errors with the value's path.
class Parcel {
 public:
  Parcel() = default;
  /// The values at stack indices first .. last.
  Parcel(lua_State* L, int first, int last);
  /// Pushes the values and returns their number. To be called in functions of push_closure only.
  int push(lua_State* L) const;
  /// Whether both contain equal values, and the same tensors.
  bool same(const Parcel&) const;

 private:
  class Writer;
  class Reader;
  int count_ = 0;
  std::string bytes_;
  TensorList tensors_;
};

class Parcel::Writer {
 public:
  Writer(Parcel& to, lua_State* L) : to_(to), L_(L) {}
  void value(int i, const Path* path = nullptr, int depth = 0) {
    if (depth > kMaxDepth) fail("tables are nested more than {} deep", kMaxDepth);
    switch (lua_type(L_, i)) {
      case LUA_TNIL: return tag(nil);
      case LUA_TBOOLEAN: return tag(lua_toboolean(L_, i) ? yes : no);
      case LUA_TNUMBER: return tag(number), raw(lua_tonumber(L_, i));
      case LUA_TSTRING: return text(i);
      case LUA_TTABLE: return entries(i, path, depth);
      default: break;
    }
    const Tensor* t = tensor_at(L_, i);
    if (!t)
      fail("{} is {}; numbers, strings, booleans, tensors and tables of them can be passed on",
           path_text(L_, path), describe(L_, i));
    if (&t->device() != &cpu_device())
      fail("{} is a tensor of {}; workers compute on the CPU: move batches in the loop, x:to('{}')",
           path_text(L_, path), t->device().name, t->device().name);
    tag(Tag::tensor), raw(to_.tensors_.size());
    to_.tensors_.push_back(t->detach());
  }

 private:
  void tag(Tag t) { to_.bytes_ += char(t); }
  void raw(auto x) {
    char bytes[sizeof x];
    std::memcpy(bytes, &x, sizeof x);
    to_.bytes_.append(bytes, sizeof x);
  }
  void text(int i) {
    const std::string_view s = text_at(L_, i);
    tag(Tag::string), raw(s.size());
    to_.bytes_ += s;
  }
  void entries(int i, const Path* path, int depth) {
    luaL_checkstack(L_, 4, "a table for another thread");
    const auto [known, fresh] = written_.try_emplace(lua_topointer(L_, i), written_.size());
    if (!fresh) return tag(repeated), raw(known->second);
    bool is_shape = false;
    if (lua_getmetatable(L_, i)) {
      luaL_getmetatable(L_, "mtorch.shape");
      is_shape = lua_rawequal(L_, -1, -2);
      lua_pop(L_, 2);
      if (!is_shape)
        fail("{} is a table with a metatable, which cannot be passed on", path_text(L_, path));
    }
    tag(is_shape ? Tag::shape : Tag::table);
    for (lua_pushnil(L_); lua_next(L_, i); lua_pop(L_, 1)) {
      const int at = lua_gettop(L_);
      const Path inner{path, at - 1};
      value(at - 1, &inner, depth + 1);
      value(at, &inner, depth + 1);
    }
    tag(end);
  }

  Parcel& to_;
  lua_State* L_;
  std::unordered_map<const void*, size_t> written_;
};

class Parcel::Reader {
 public:
  Reader(const Parcel& from, lua_State* L) : from_(from), L_(L) {
    lua_newtable(L);  // the tables, by number
    tables_ = lua_gettop(L);
  }
  /// Pushes the next value; false at the end of a table.
  bool value() {
    switch (const Tag t = Tag(from_.bytes_[at_++])) {
      case nil: lua_pushnil(L_); break;
      case no:
      case yes: lua_pushboolean(L_, t == yes); break;
      case number: lua_pushnumber(L_, raw<double>()); break;
      case string: {
        const size_t n = raw<size_t>();
        lua_pushlstring(L_, from_.bytes_.data() + at_, n);
        at_ += n;
        break;
      }
      case tensor: push_tensor(L_, from_.tensors_[raw<size_t>()].detach()); break;
      case repeated: lua_rawgeti(L_, tables_, int(raw<size_t>()) + 1); break;
      case end: return false;
      case table:
      case shape: entries(t == shape);
    }
    return true;
  }
  void finish() { lua_remove(L_, tables_); }

 private:
  template <class T> T raw() {
    T x;
    std::memcpy(&x, from_.bytes_.data() + at_, sizeof x);
    at_ += sizeof x;
    return x;
  }
  void entries(bool is_shape) {
    luaL_checkstack(L_, 4, "a table from another thread");
    lua_newtable(L_);
    lua_pushvalue(L_, -1);
    lua_rawseti(L_, tables_, ++table_count_);
    if (is_shape) {
      luaL_getmetatable(L_, "mtorch.shape");
      lua_setmetatable(L_, -2);
    }
    while (value()) {
      value();
      lua_rawset(L_, -3);
    }
  }

  const Parcel& from_;
  lua_State* L_;
  size_t at_ = 0;
  int tables_ = 0, table_count_ = 0;
};

Parcel::Parcel(lua_State* L, int first, int last) : count_(last - first + 1) {
  Writer writer(*this, L);
  for (int i = first; i <= last; ++i) writer.value(i);
}

int Parcel::push(lua_State* L) const {
  luaL_checkstack(L, count_ + 2, "values from another thread");
  Reader reader(*this, L);
  for (int i = 0; i < count_; ++i) reader.value();
  reader.finish();
  return count_;
}

bool Parcel::same(const Parcel& o) const {
  if (count_ != o.count_ || bytes_ != o.bytes_ || tensors_.size() != o.tensors_.size())
    return false;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const Tensor &a = tensors_[i], &b = o.tensors_[i];
    if (a.impl()->storage != b.impl()->storage || a.offset() != b.offset() ||
        a.dtype() != b.dtype() || !(a.shape() == b.shape()) || !(a.strides() == b.strides()))
      return false;
  }
  return true;
}

// ---- a team ----------------------------------------------------------------------------------------

/// Ctrl-C does not wake waiting threads: each polls with this period.
constexpr auto kPoll = std::chrono::milliseconds(20);
/// How long the end of a loader waits for an item in progress; then its thread is abandoned.
constexpr auto kStopTimeout = std::chrono::seconds(2);

struct Result {
  bool good;
  Parcel values;  // the batch, or an error message
};

/// The state shared by the loader's thread and its workers. Batches have increasing tickets.
struct Team {
  std::mutex guard;
  std::condition_variable to_do, done;
  std::deque<std::pair<int64_t, Parcel>> jobs;
  std::unordered_map<int64_t, Result> results;
  std::shared_ptr<const Parcel> setup;  // the dataset and the collate function
  int64_t next = 1;                     // the next ticket
  std::atomic<int64_t> oldest{1};       // earlier tickets were cancelled
  lua_CFunction prepare = nullptr;      // module.h
  int alive = 0;
  std::string death;  // why a worker ended without a request
  std::atomic<bool> stopping{false};

  /// Cancels all earlier requests. The caller must hold the guard.
  void give_up() {
    jobs.clear();
    results.clear();
    oldest = next;
  }
};

struct Worker {
  std::shared_ptr<Team> team;
  std::shared_ptr<const Parcel> setup;  // the last one it received
  int64_t ticket = 0;                   // of the current job, or 0
};
thread_local Worker* current_worker = nullptr;

Worker& worker() {
  if (!current_worker) fail("this is not a worker of a DataLoader");
  return *current_worker;
}

// ---- a worker's thread --------------------------------------------------------------------------

int open_and_work(lua_State* L) {
  luaL_openlibs(L);
  open_lua(L);
  lua_settop(L, 0);
  if (const lua_CFunction prepare = worker().team->prepare) {
    lua_pushcfunction(L, prepare);
    lua_call(L, 0, 0);
  }
  lua_getglobal(L, "require");
  lua_pushliteral(L, "mtorch.data.worker");
  lua_call(L, 1, 1);
  lua_call(L, 0, 0);
  return 0;
}

/// Works until the team stops; if it ends for another reason, reports that to the team.
void work(std::shared_ptr<Team> team) {
  disable_pool_on_this_thread();
  thread_state.device = nullptr;  // the CPU
  thread_state.is_worker = true;
  Worker self{team, nullptr};
  current_worker = &self;
  std::string reason = "Lua has no memory";
  lua_State* const L = luaL_newstate();
  if (L) {
    if (lua_cpcall(L, open_and_work, nullptr) == 0) reason = "it returned";
    else if (const char* message = lua_tostring(L, -1)) reason = message;
    else reason = "it raised an error that is not a string";
  }
  {
    std::lock_guard lock(team->guard);
    --team->alive;
    if (!team->stopping) team->death = reason;
  }
  team->done.notify_all();
  self = {};
  if (L) lua_close(L);
  current_worker = nullptr;
}

/// wait(): the next job's ticket, the job, and the dataset if it has changed; nothing at the end.
int wait(Args& a) {
  Worker& self = worker();
  Team& team = *self.team;
  Parcel job;
  std::shared_ptr<const Parcel> setup;
  {
    std::unique_lock lock(team.guard);
    self.ticket = 0;
    team.to_do.wait(lock, [&] { return team.stopping || !team.jobs.empty(); });
    if (team.stopping) return 0;
    self.ticket = team.jobs.front().first;
    job = std::move(team.jobs.front().second);
    team.jobs.pop_front();
    setup = team.setup;
  }
  lua_pushnumber(a.L, double(self.ticket));
  job.push(a.L);
  if (setup == self.setup) return 2;
  self.setup = setup;
  return 2 + setup->push(a.L);
}

/// give(values, n, ticket, good): a batch, or an error message. The last argument must not be a
/// table, because it would be parsed as options.
int give(Args& a) {
  Team& team = *worker().team;
  const int n = int(a.integer(2));
  const int64_t ticket = a.integer(3);
  luaL_checkstack(a.L, n, "values for another thread");
  for (int i = 1; i <= n; ++i) lua_rawgeti(a.L, 1, i);
  Result result{a.boolean(4), Parcel(a.L, 5, 4 + n)};
  {
    std::lock_guard lock(team.guard);
    if (ticket >= team.oldest) team.results.insert_or_assign(ticket, std::move(result));
  }
  team.done.notify_all();
  return 0;
}

// ---- the loader's side --------------------------------------------------------------------------

/// A team, which stops when this is destroyed.
struct Workers {
  static constexpr char kShown[] = "the workers of a DataLoader";
  std::shared_ptr<Team> team = std::make_shared<Team>();
  std::vector<std::thread> threads;

  Workers(int n, lua_CFunction prepare) {
    team->prepare = prepare;
    sigset_t blocked, before;  // Ctrl-C and timers belong to the main thread; faults stay unblocked
    sigfillset(&blocked);
    for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT})
      sigdelset(&blocked, fault);
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    std::string error;
    for (int i = 0; i < n && error.empty(); ++i) try {
        team->alive = i + 1;
        threads.emplace_back(inheriting([team = team] { work(team); }));
      } catch (const std::system_error& e) {
        team->alive = i;
        error = e.what();
      }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (error.empty()) return;
    stop();
    fail("DataLoader: worker {} of {} cannot be started: {}", threads.size() + 1, n, error);
  }
  ~Workers() { stop(); }

  void stop() {
    std::unique_lock lock(team->guard);
    team->stopping = true;
    team->give_up();
    team->to_do.notify_all();
    const bool ended = team->done.wait_for(lock, kStopTimeout, [&] { return team->alive == 0; });
    lock.unlock();
    for (std::thread& t : threads)
      if (t.joinable()) ended ? t.join() : t.detach();
    threads.clear();
  }
};

/// set_up(values, team): the constants of the following jobs. A change cancels earlier jobs.
int set_up(Args& a) {
  Team& team = *Userdata<Workers>::at(a, 2).team;
  auto setup = std::make_shared<const Parcel>(a.L, 1, 1);
  std::lock_guard lock(team.guard);
  if (team.setup && team.setup->same(*setup)) return 0;
  team.setup = std::move(setup);
  team.give_up();
  return 0;
}

int post(Args& a) {
  Team& team = *Userdata<Workers>::at(a, 2).team;
  Parcel job(a.L, 1, 1);
  std::unique_lock lock(team.guard);
  const int64_t ticket = team.next++;
  team.jobs.emplace_back(ticket, std::move(job));
  lock.unlock();
  team.to_do.notify_one();
  return a.push(ticket);
}

/// take(team, ticket): waits; returns true and the batch, or false and an error message.
int take(Args& a) {
  Team& team = *Userdata<Workers>::at(a, 1).team;
  const int64_t ticket = a.integer(2);
  std::unique_lock lock(team.guard);
  auto found = team.results.end();
  const auto ready = [&] {
    found = team.results.find(ticket);
    return found != team.results.end() || !team.death.empty();
  };
  while (!team.done.wait_for(lock, kPoll, ready)) check_interrupt();
  if (found == team.results.end()) return a.push(false, "a worker ended: " + team.death);
  const Result result = std::move(found->second);
  team.results.erase(found);
  lock.unlock();
  lua_pushboolean(a.L, result.good);
  return 1 + result.values.push(a.L);
}

const Entry kWorkers[] = {
    {"start(n)", "Starts n workers.",
     [](Args& a) {
       lua_getfield(a.L, LUA_REGISTRYINDEX, kPrepareState);
       return push_result(a,
                          std::make_unique<Workers>(int(a.integer(1)), lua_tocfunction(a.L, -1)));
     }},
    {"set_up(values, team)", "Sets the constants of the following jobs.", set_up},
    {"post(job, team)", "Requests a batch; returns its ticket.", post},
    {"take(team, ticket)", "Waits for a batch.", take},
    {"give_up(team)", "Cancels all earlier requests.", bind<[](Workers& workers) {
       std::lock_guard lock(workers.team->guard);
       workers.team->give_up();
     }>},
    {"works(team)", "Whether no worker has ended.", bind<[](Workers& workers) {
       std::lock_guard lock(workers.team->guard);
       return workers.team->death.empty();
     }>},
    {"address(fn)",
     "The address of the entry of a C++ function, which all states share; or nothing.",
     [](Args& a) {
       const Entry* e = entry_at(a.L, 1);
       if (!e || lua_getupvalue(a.L, 1, 3)) return 0;  // a third upvalue is a function in Lua
       return a.push(reinterpret_cast<uintptr_t>(e));
     }},
    {"function_at(address)", "The function of an entry.",
     [](Args& a) {
       worker();  // elsewhere the number may be from a script
       push_function(a.L, *reinterpret_cast<const Entry*>(uintptr_t(a.number(1))));
       return 1;
     }},
    {"load_function(code)", "A function of bytecode that another state of this program made.",
     [](Args& a) {
       worker();  // elsewhere it may be from a script, and LuaJIT does not check bytecode
       const std::string_view code = a.characters(1);
       if (luaL_loadbufferx(a.L, code.data(), code.size(), "=worker", "b") != 0)
         fail("{}", lua_tostring(a.L, -1));
       return 1;
     }},
    {"wait()", "A worker's next job.", wait},
    {"give(values, n, ticket, good)", "A worker's result.", give},
};

}  // namespace

void check_wanted() {
  if (!current_worker) return;
  const Team& team = *current_worker->team;
  if (team.stopping || current_worker->ticket < team.oldest)
    fail("the DataLoader no longer needs this batch");
}

void add_workers(lua_State* L) { add_internal(L, kWorkers); }

}  // namespace mt::lua
