// step_graph.cpp -- parts of a recorded step as CUDA graphs: one launch per part instead of one per call
#include <algorithm>

#include "engine/compiler/record/replay.h"
#include "engine/core/async_errors.h"
#include "engine/core/profile_scope.h"
#include "engine/ops/generator.h"

namespace mt {
namespace {

constexpr int kStartsBefore = 2;  // a capture is not worth it for a program that is dropped soon
constexpr int kMaxDrops = 4;      // for a step whose pointers or numbers change repeatedly
constexpr size_t kFewCalls = 4;   // so few are launched directly

}  // namespace

struct StepReplay::PartGraph {
  explicit PartGraph(const Gpu& g, uint64_t place) : gpu(g), capture(g), begun(place) {
    set_current_capture(&capture);
  }
  PartGraph(const PartGraph&) = delete;
  ~PartGraph() {
    finish(false);
    if (handle) gpu.drop_graph(handle);
  }
  void finish(bool keep) {
    if (current_capture != &capture) return;
    set_current_capture(nullptr);
    handle = gpu.captured(keep);
  }
  const Gpu& gpu;
  Capture capture;
  const uint64_t begun;  // the position of the generator
  void* handle = nullptr;
};

StepReplay::StepReplay() = default;
StepReplay::~StepReplay() = default;

size_t StepReplay::graphs() const {
  return std::ranges::count_if(graphs_, [](const auto& g) { return !!g; });
}

/// A graph has fixed pointers and numbers: with graphs, moving arguments and results are copied.
void StepReplay::choose_graphs() {
  const bool may = gpu_ && !gpu_of(*gpu_).synchronous && drops_ < kMaxDrops;
  uses_graphs_ = may && starts_++ >= kStartsBefore;
  graphs_.resize(ends_.size());
}
void StepReplay::drop_graphs() {
  drops_ += graphs() > 0;
  for (auto& g : graphs_) g.reset();
}

/// Captures the part. Null if that is not possible.
std::unique_ptr<StepReplay::PartGraph> StepReplay::capture(size_t part) {
  const Gpu& gpu = gpu_of(*gpu_);
  synchronize(gpu);
  if (!gpu.capture()) return nullptr;
  auto made = std::make_unique<PartGraph>(gpu, begun_);
  for (size_t i = part == 0 ? 0 : ends_[part - 1]; i < ends_[part]; ++i) calls_[i].run(begun_);
  made->finish(true);
  return made->handle ? std::move(made) : nullptr;
}

bool StepReplay::run_graph(size_t part) {
  const size_t first = part == 0 ? 0 : ends_[part - 1];
  if (!uses_graphs_ || !graph_parts_[part] || ends_[part] - first < kFewCalls) return false;
  std::unique_ptr<PartGraph>& graph = graphs_[part];
  if (!graph && !(graph = capture(part))) {
    drops_ = kMaxDrops;
    return false;
  }
  check_alive(*gpu_);
  const profile::Scope scope(profile::Kind::launch, uint64_t(graph.get()),
                             [] { return "launch: graph"; });
  graph->gpu.replay(graph->handle, {default_generator().initial_seed(), begun_ - graph->begun});
  return true;
}

}  // namespace mt
