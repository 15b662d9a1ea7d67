// workers.cpp -- the threads of a DataLoader: each runs data/worker.lua in its own Lua state
#include "bindings/functions/functions.h"

#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <system_error>
#include <thread>
#include <unordered_map>

#include "bindings/core/parcel.h"
#include "bindings/open.h"
#include "engine/autograd/graph.h"
#include "kernels/cpu/pool/serial_thread.h"

namespace mt::lua {

namespace {

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
