// background.cpp -- a thread that calls MPI while the process computes
#include "engine/dist/background.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "engine/dist/agreement.h"

namespace mt::dist {
namespace {

/// Whether each process of this machine has a core beside those of its own threads.
bool has_idle_core() {
  if (const char* given = getenv("MTORCH_DIST_THREAD")) return std::atoi(given) != 0;
  const char* const local = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  const int processes = std::max(1, local ? std::atoi(local) : 1);
  const int allowed = int(std::thread::hardware_concurrency());  // a process may be bound to cores
  return get_num_threads() < std::min(allowed, int(sysconf(_SC_NPROCESSORS_ONLN)) / processes);
}

struct Background {
  std::mutex lock;
  std::condition_variable changed;
  std::deque<std::function<void()>> jobs;
  int64_t started = 0, ended = 0;
  std::exception_ptr error;  // of the first job that failed

  void run(const std::function<void()>& job) {
    std::exception_ptr failed;
    try {
      job();
    } catch (...) { failed = std::current_exception(); }
    const std::lock_guard<std::mutex> held(lock);
    if (failed && !error) error = failed;
    ++ended;
    changed.notify_all();
  }
  void work() {
    for (;;) {
      std::function<void()> job;
      {
        std::unique_lock<std::mutex> held(lock);
        changed.wait(held, [&] { return !jobs.empty(); });
        job = std::move(jobs.front());
        jobs.pop_front();
      }
      run(job);
    }
  }
};

Background& background() {
  static auto& state = *new Background;  // its thread lives as long as the process
  return state;
}

}  // namespace

int64_t start_in_background(std::function<void()> job) {
  static const bool in_thread = threads_may_call() && has_idle_core();
  Background& b = background();
  if (!in_thread) {
    b.run(job);
    return ++b.started;
  }
  static const bool has_thread = (std::thread([] { background().work(); }).detach(), true);
  (void)has_thread;
  const std::lock_guard<std::mutex> held(b.lock);
  b.jobs.push_back(std::move(job));
  b.changed.notify_all();
  return ++b.started;
}

void wait_for_job(const char* operation, int64_t job) {
  using Clock = std::chrono::steady_clock;
  Background& b = background();
  const auto start = Clock::now();
  std::unique_lock<std::mutex> held(b.lock);
  while (b.ended < job) {
    b.changed.wait_for(held, std::chrono::milliseconds(20));
    const double waited = std::chrono::duration<double>(Clock::now() - start).count();
    if (b.ended >= job || (!mt_interrupted && waited < time_limit())) continue;
    b.ended = INT64_MAX / 2;  // nothing waits for the thread again
    set_lost(mt_interrupted ? "Ctrl-C ended an earlier call"
                            : "an earlier call waited for too long");
    check_interrupt();
    fail("{}: process {} has waited for {:.1f} s for data of the other processes", operation,
         rank(), waited);
  }
  if (b.error) std::rethrow_exception(std::exchange(b.error, nullptr));
}

void wait_for_background(const char* operation) {
  if (const int64_t started = background().started) wait_for_job(operation, started);
}

}  // namespace mt::dist
