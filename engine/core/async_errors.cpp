// async_errors.cpp -- errors that a GPU reports after the call: indices out of bounds, failed kernels
#include "engine/core/async_errors.h"

#include <map>

#include "engine/core/step_listener.h"

namespace mt {

const Gpu* capturing = nullptr;
Capture* current_capture = nullptr;

namespace {

// The checks launched since the last synchronisation, the latest ones of each GPU.
constexpr uint64_t kRing = 256;
struct LaunchedCheck {
  uint64_t check = 0;
  IndexBound what{};
};
struct Ring {
  LaunchedCheck launched[kRing];
  uint64_t next = 0;
};
std::map<const Gpu*, Ring> rings;

// The latest of the user's calls.
constexpr int64_t kCalls = 32;
GpuCall calls[kCalls];
int64_t called = 0, started_before = 0;

/// "; called from train.lua:12 (matmul), train.lua:13 (relu)": the calls since the last synchronisation.
std::string calls_not_done(const Gpu& gpu) {
  std::string text;
  for (int64_t i = called > kCalls ? called - kCalls : 0; i < called; ++i) {
    const GpuCall& c = calls[i % kCalls];
    if (c.started <= *gpu.waited) continue;
    text += text.empty() ? "; called from " : ", ";
    text += fmt::format("{} ({})", c.where, c.function);
  }
  return text;
}

Capture* captures = nullptr;

}  // namespace

Capture::Capture(const Gpu& g) : gpu(g), next(captures) { captures = this; }
Capture::~Capture() {
  Capture** at = &captures;
  while (*at != this) at = &(*at)->next;
  *at = next;
}
void set_current_capture(Capture* c) {
  current_capture = c;
  capturing = c ? &c->gpu : nullptr;
}

GpuCall* new_gpu_call() {
  const int64_t now = started_on_gpus();
  if (now == started_before) return nullptr;
  started_before = now;
  GpuCall& call = calls[called++ % kCalls];
  call.started = now;
  return &call;
}

bool reports_synchronously(const Device& d) {
  if (step_recorder)
    return false;  // a replay cannot read values: the verbs report indices out of bounds
  return is_cpu(d) || (gpu_of(d).synchronous && !capturing);
}

std::string describe_violation(const IndexBound& e, int64_t value) {
  const int64_t shown = value + e.shift;
  switch (e.kind) {
    case IndexBound::label:
      return fmt::format("a target is {}, expected {}..{} (labels count from {} here)", shown,
                         e.first, e.last, e.first);
    case IndexBound::id:
      return fmt::format("id {} is outside {}..{}; ids count from {}", shown, e.first, e.last,
                         e.first);
    default:
      return fmt::format("position {} is outside {}..{} (dimension {} of {}){}", shown, e.first,
                         e.last, e.dim + 1, e.shape,
                         e.first && shown == 0 ? "; 0 is not a position, they count from 1" : "");
  }
}

void defer_check(const Device& d, IndexBound e) {
  if (is_cpu(d)) return;
  if (const char* name = host.function ? host.function() : nullptr) e.name = name;
  if (step_recorder) step_recorder->on_index_check(e);
  defer_replayed_check(d, e);
}
void defer_replayed_check(const Device& d, const IndexBound& e) {
  if (reports_synchronously(d)) return;
  const Gpu& gpu = gpu_of(d);
  const LaunchedCheck c{gpu.last_check(), e};
  if (current_capture) return current_capture->bounds.emplace_back(c.check, c.what), void();
  Ring& ring = rings[&gpu];
  if (ring.next > 0 && ring.next % kRing == 0) synchronize(d);  // before the first entry is lost
  ring.launched[ring.next++ % kRing] = c;
}

void raise_violation(const Gpu& gpu) {
  const BadIndex wrong = gpu.take_bad_index();
  if (wrong.check == 0) return;
  const IndexBound* e = nullptr;
  for (const LaunchedCheck& a : rings[&gpu].launched)
    if (a.check == wrong.check) e = &a.what;
  for (const Capture* c = captures; c && !e; c = c->next)
    for (const auto& [check, what] : c->bounds)
      if (check == wrong.check && &c->gpu == &gpu) e = &what;
  if (!e) fail("an earlier operation on {} had an index out of range", gpu.name);
  fail("an earlier {} on {}: {}; MTORCH_CUDA_SYNC=1 stops at its line", e->name, gpu.name,
       describe_violation(*e, wrong.low));
}

namespace {
struct PendingCheck {
  const Gpu* gpu;
  int64_t started;
  std::function<void()> look;
};
std::vector<PendingCheck>& pending_checks = *new std::vector<PendingCheck>;  // outlives GPU memory
}  // namespace

void after_sync(const Gpu& gpu, std::function<void()> look) {
  pending_checks.push_back({&gpu, *gpu.started, std::move(look)});
}
/// Runs the checks whose work has been synchronised.
static void run_done_checks(const Gpu& gpu) {
  for (size_t k = 0; k < pending_checks.size();) {
    if (pending_checks[k].gpu != &gpu || pending_checks[k].started > *gpu.waited || capturing) {
      ++k;
      continue;
    }
    const std::function<void()> look = std::move(pending_checks[k].look);
    pending_checks.erase(pending_checks.begin() + long(k));
    look();
  }
}

void check_alive(const Device& d) {
  if (is_cpu(d)) return;
  const char* const what = gpu_of(d).lost();
  if (!what) return;
  const char* const first = d.take_error();
  if (first)  // the error, with all the context
    fail("{}: {}{}", d.name, first, gpu_of(d).synchronous ? "" : calls_not_done(gpu_of(d)));
  fail("{}: {}", d.name, what);
}
void check_done(const Gpu& gpu) {
  if (const char* what = gpu.take_error()) fail("{}: {}", gpu.name, what);
  raise_violation(gpu);
  run_done_checks(gpu);
}
void check_device(const Device& d) {
  if (is_cpu(d)) return;
  check_alive(d);
  check_done(gpu_of(d));
}
void check_may_wait(const Device& d) {
  if (capturing && capturing == &d)
    fail(
        "while mt.cuda.graph records, the CPU cannot wait for {}; take item(), tolist(), printing "
        "and copies to and from the CPU out of the function",
        d.name);
}
void synchronize(const Device& d) {
  check_may_wait(d);
  d.sync();
  check_device(d);
}

}  // namespace mt
