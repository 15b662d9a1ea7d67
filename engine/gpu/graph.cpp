// graph.cpp -- CUDA graphs: a run of operations captured once and replayed
#include "engine/gpu/graph.h"

#include "engine/core/profile_scope.h"
#include "engine/core/step_listener.h"
#include "engine/ops/generator.h"

namespace mt {

Graph::Graph(const Device& d) : gpu_(gpu_of(d)) {
  if (is_cpu(d)) fail("a graph records what a GPU does; this is the CPU");
  if (current_capture) fail("a graph is being recorded already");
  mark_untraceable();
  synchronize(d);
  if (!gpu_.begin_capture()) {
    check_device(d);
    fail("{}: nothing can be recorded", d.name);
  }
  begun_ = default_generator().counter();
  capture_ = std::make_unique<Capture>(gpu_);
  set_current_capture(capture_.get());
}

void Graph::finish(bool keep) {
  if (!current_capture || current_capture != capture_.get()) return;
  set_current_capture(nullptr);
  // The capture has drawn no numbers: the first replay draws the next ones.
  draws_ = default_generator().counter() - begun_;
  default_generator().set_counter(begun_);
  handle_ = gpu_.end_capture(keep);
  if (keep && !handle_) {
    check_device(gpu_);
    fail("{}: what was recorded cannot be replayed", gpu_.name);
  }
}

void Graph::replay() {
  if (!handle_) fail("this graph recorded nothing that can be replayed");
  if (capturing) fail("a graph cannot be replayed while another is recorded");
  check_alive(gpu_);
  mark_untraceable();
  for (const bool commit : {false, true})
    for (const auto& prepare : capture_->before_replay) prepare(commit);
  Generator& generator = default_generator();
  const Replay r{generator.initial_seed(), generator.counter() - begun_};
  const profile::Scope scope(profile::Kind::launch, uint64_t(this), [] { return "launch: graph"; });
  gpu_.replay(handle_, r);
  generator.set_counter(generator.counter() + draws_);
}

Graph::~Graph() {
  try {
    finish(false);
  } catch (const Error&) {  // there is nothing to clean up
  }
  if (handle_) gpu_.destroy_graph(handle_);
}

}  // namespace mt
