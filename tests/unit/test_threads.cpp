// test_threads.cpp -- the pool: every piece once, whoever calls; interrupts, modes, forks
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <limits>
#include <thread>

#include "engine/autograd/function.h"
#include "engine/core/device.h"
#include "kernels/cpu/pool/parallel.h"
#include "tests/unit/support.h"

using namespace mt;

namespace {

/// A number of threads while this lives.
struct Threads {
  const int before = cpu_threads();
  explicit Threads(int n) { set_cpu_threads(n); }
  ~Threads() { set_cpu_threads(before); }
};

/// How often each of n pieces was computed, as seen from outside; none by a wrong worker.
bool each_once(int64_t n) {
  std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
  std::atomic<int> strangers{0};
  parallel(n, true, [&](int64_t i) {
    ++seen[size_t(i)];
    strangers += worker_number() < 0 || worker_number() >= cpu_threads();
  });
  for (const auto& times : seen)
    if (times != 1) return false;
  return strangers == 0;
}

}  // namespace

MT_TEST("every piece is computed once", "[threads]") {
  for (const int threads : {1, 2, 3, 8, 2}) {
    const Threads use(threads);
    for (const int64_t n : {0, 1, 2, 3, 100, 10000}) CHECK(each_once(n));
    for (int i = 0; i < 2000; ++i) CHECK(each_once(5));
  }
}

MT_TEST("loops inside pieces and of other threads run where they are", "[threads]") {
  const Threads use(3);
  std::atomic<int> inner{0};
  parallel(20, true, [&](int64_t) {
    const int me = worker_number();
    parallel(10, true, [&](int64_t) { inner += worker_number() == me; });
  });
  CHECK(inner == 200);
  std::atomic<bool> right{true};
  std::vector<std::thread> hosts;
  for (int h = 0; h < 3; ++h)
    hosts.emplace_back([&] {
      for (int i = 0; i < 300; ++i)
        if (!each_once(7)) right = false;
    });
  for (std::thread& host : hosts) host.join();
  CHECK(right);
}

namespace {

/// What a thread would compute with, as text.
std::string defaults() {
  return fmt::format("{} {} {} {} {}", dtype_name(default_dtype()), default_device().name,
                     grad_enabled(), thread_state.debugging, dtype_name(thread_state.autocast.cpu));
}
/// Other defaults than the first, while this lives.
struct OtherDefaults {
  const ThreadDefaults before = thread_state;
  OtherDefaults() {
    set_default_dtype(Dtype::f64);
    set_grad_enabled(false);
    set_debug(true);
    thread_state.autocast.cpu = Dtype::bf16;
  }
  ~OtherDefaults() { static_cast<ThreadDefaults&>(thread_state) = before; }
};

}  // namespace

MT_TEST("a thread starts with the defaults of the thread that made it by `inheriting`",
        "[threads]") {
  std::string own, nested, changed;
  const OtherDefaults other;
  std::thread(inheriting([&] {
    own = defaults();
    std::thread(inheriting([&] { nested = defaults(); })).join();
    set_default_dtype(Dtype::f32);
    changed = dtype_name(zeros({1}).dtype());
  })).join();
  CHECK(own == "float64 cpu false true bfloat16");
  CHECK(nested == own);
  CHECK(changed == "float32");
  CHECK(default_dtype() == Dtype::f64);  // what it changed was its own
}

MT_TEST("any other thread starts with the first defaults, and with nothing under way",
        "[threads]") {
  std::string first;
  bool idle = false;
  const OtherDefaults other;
  const Tensor target = zeros({2});
  const Into into(&target);
  const auto again = std::make_shared<Checkpoint>();
  const CheckpointScope scope(again, false);
  std::thread([&] {
    first = defaults();
    idle = !Into::take() && !in_checkpoint() && !thread_state.backward && !thread_state.function;
    const Tensor x = ones({2}).requires_grad_();
    (x * x).sum().backward();
    idle &= x.grad().at(1) == 2;
  }).join();
  CHECK(first == "float32 cpu true false none");
  CHECK(idle);
}

MT_TEST("after an interrupt no piece begins", "[threads]") {
  const Threads use(2);
  std::atomic<int> begun{0};
  parallel(1000, true, [&](int64_t) {
    ++begun;
    mt_interrupted = 1;
  });
  mt_interrupted = 0;
  CHECK(begun >= 1);
  CHECK(begun <= 2);
  CHECK(each_once(10));
}

MT_TEST("what must be done whole is done before an interrupt", "[threads]") {
  const Threads use(2);
  {
    const InterruptGuard guard;
    CHECK(interrupt());
    CHECK(!interrupt());
    CHECK(each_once(100));
    CHECK(!mt_interrupted);
  }
  CHECK(mt_interrupted);
  CHECK(!interrupt());
  mt_interrupted = 0;
}

MT_TEST("workers compute with the caller's denormals", "[threads]") {
  const Threads use(2);
  const auto zeros = [] {
    std::atomic<int> n{0};
    parallel(200, true, [&](int64_t) {
      volatile float least = std::numeric_limits<float>::min(), half = 0.5f;
      volatile float below = least * half;
      n += below == 0;
    });
    return n.load();
  };
  CHECK(zeros() == 0);
  {
    const NoDenormals mode;
    CHECK(zeros() == 200);
  }
  CHECK(zeros() == 0);
  CHECK(set_flush_denormal(true));
  CHECK(zeros() == 200);
  CHECK(set_flush_denormal(false));
  CHECK(zeros() == 0);
}

MT_TEST("a child after fork() has threads of its own", "[threads]") {
  const Threads use(2);
  CHECK(each_once(10));
  const pid_t child = fork();
  if (child == 0) _exit(each_once(100) ? 7 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WEXITSTATUS(status) == 7);
  CHECK(each_once(10));
}
