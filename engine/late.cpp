// late.cpp -- what a GPU tells later than it is asked: wrong positions, failures; graphs under way
#include "engine/late.h"

#include <cstring>
#include <map>

#include "engine/error.h"
#include "engine/generator.h"
#include "engine/profile.h"

namespace mt {

const Gpu* capturing = nullptr;
const char* (*function_under_way)() = nullptr;

namespace {

// What was asked since somebody waited, the latest of each GPU: there the verbs' numbers are counted.
constexpr uint64_t kRing = 256;
struct Asked {
  uint64_t check = 0;
  Expected what{};
};
struct Ring {
  Asked asked[kRing];
  uint64_t next = 0;
};
std::map<const Gpu*, Ring> rings;

// The user's calls, the latest.
constexpr int64_t kCalls = 32;
GpuCall calls[kCalls];
int64_t called = 0, started_before = 0;

/// "; called from train.lua:12 (matmul), train.lua:13 (relu)": what nobody has waited for.
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

Graph* graphs = nullptr;
Graph* under_way = nullptr;

}  // namespace

GpuCall* new_gpu_call() {
  const int64_t now = started_on_gpus();
  if (now == started_before) return nullptr;
  started_before = now;
  GpuCall& call = calls[called++ % kCalls];
  call.started = now;
  return &call;
}

bool tells_at_once(const Device& d) { return is_cpu(d) || (gpu_of(d).at_once && !capturing); }

std::string unexpected(const Expected& e, int64_t value) {
  const int64_t shown = value + e.shift;
  switch (e.kind) {
    case Expected::label:
      return fmt::format("a target is {}, expected {}..{} (labels count from {} here)", shown,
                         e.first, e.last, e.first);
    case Expected::id:
      return fmt::format("id {} is outside {}..{}; ids count from {}", shown, e.first, e.last, e.first);
    default:
      return fmt::format("position {} is outside {}..{} (dimension {} of {}){}", shown, e.first,
                         e.last, e.dim + 1, to_string(e.shape),
                         e.first && shown == 0 ? "; 0 is not a position, they count from 1" : "");
  }
}

void expect(const Device& d, const Expected& e) {
  if (tells_at_once(d)) return;
  const Gpu& gpu = gpu_of(d);
  Asked asked{gpu.last_check(), e};
  if (const char* name = function_under_way ? function_under_way() : nullptr) asked.what.name = name;
  if (under_way) return under_way->expected_.emplace_back(asked.check, asked.what), void();
  Ring& ring = rings[&gpu];
  if (ring.next > 0 && ring.next % kRing == 0) synchronize(d);  // before the first is forgotten
  ring.asked[ring.next++ % kRing] = asked;
}

void raise_unexpected(const Gpu& gpu) {
  const WrongPosition wrong = gpu.wrong_position();
  if (wrong.check == 0) return;
  const Expected* e = nullptr;
  for (const Asked& a : rings[&gpu].asked)
    if (a.check == wrong.check) e = &a.what;
  for (const Graph* g = graphs; g && !e; g = g->next_)
    for (const auto& [check, what] : g->expected_)
      if (check == wrong.check && &g->gpu() == &gpu) e = &what;
  if (!e) fail("an earlier operation on {}: a position is not there", gpu.name);
  fail("an earlier {} on {}: {}; MTORCH_CUDA_SYNC=1 stops at its line", e->name, gpu.name,
       unexpected(*e, wrong.low));
}

void check_alive(const Device& d) {
  if (is_cpu(d)) return;
  const char* const what = gpu_of(d).lost();
  if (!what) return;
  const char* const first = d.trouble();
  if (first)  // with all that is known
    fail("{}: {}{}", d.name, first, gpu_of(d).at_once ? "" : calls_not_done(gpu_of(d)));
  fail("{}: {}", d.name, what);
}
void check_done(const Gpu& gpu) {
  if (const char* what = gpu.trouble()) fail("{}: {}", gpu.name, what);
  raise_unexpected(gpu);
}
void check_device(const Device& d) {
  if (is_cpu(d)) return;
  check_alive(d);
  check_done(gpu_of(d));
}
void check_may_wait(const Device& d) {
  if (capturing && capturing == &d)
    fail("while mt.cuda.graph records, the CPU cannot wait for {}; take item(), tolist(), printing "
         "and copies to and from the CPU out of the function", d.name);
}
void synchronize(const Device& d) {
  check_may_wait(d);
  d.sync();
  check_device(d);
}

// ---- graphs -------------------------------------------------------------------------------------

void record_step(StepRule rule) {
  if (under_way->steps_.size() == kMostSteps)
    fail("a graph can hold {} steps of optimizers; use several graphs", kMostSteps);
  capturing->step_entry(int(under_way->steps_.size()));
  under_way->steps_.push_back(std::move(rule));
}

Graph::Graph(const Device& d) : gpu_(gpu_of(d)) {
  if (is_cpu(d)) fail("a graph records what a GPU does; this is the CPU");
  if (under_way) fail("a graph is being recorded already");
  synchronize(d);
  if (!gpu_.capture()) {
    check_device(d);
    fail("{}: nothing can be recorded", d.name);
  }
  begun_ = default_generator().counter();
  next_ = graphs;
  graphs = under_way = this;
  capturing = &gpu_;
}

void Graph::finish(bool keep) {
  if (under_way != this) return;
  under_way = nullptr;
  capturing = nullptr;
  // Nothing has been drawn yet: the first replay draws the numbers that come next.
  draws_ = default_generator().counter() - begun_;
  default_generator().set_counter(begun_);
  handle_ = gpu_.captured(keep);
  if (keep && !handle_) {
    check_device(gpu_);
    fail("{}: what was recorded cannot be replayed", gpu_.name);
  }
}

void Graph::replay(const std::vector<Step>& steps) {
  if (!handle_) fail("this graph recorded nothing that can be replayed");
  if (capturing) fail("a graph cannot be replayed while another is recorded");
  if (steps.size() != steps_.size())
    fail("{} steps were recorded, not {}", steps_.size(), steps.size());
  check_alive(gpu_);
  Generator& generator = default_generator();
  Replay r{};
  r.seed = generator.initial_seed();
  r.offset = generator.counter() - begun_;
  for (size_t i = 0; i < steps.size(); ++i) r.step[i] = steps_[i](steps[i].lr, steps[i].number);
  const profile::Scope scope(profile::Kind::launch, uint64_t(this), [] { return "launch: graph"; });
  gpu_.replay(handle_, r);
  generator.set_counter(generator.counter() + draws_);
}

Graph::~Graph() {
  if (under_way == this) {
    try {
      finish(false);
    } catch (const Error&) {  // there is nothing to lose
    }
  }
  for (Graph** at = &graphs; *at; at = &(*at)->next_)
    if (*at == this) {
      *at = next_;
      break;
    }
  if (handle_) gpu_.drop_graph(handle_);
}

}  // namespace mt
