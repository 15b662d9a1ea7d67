// profile_devices.cpp -- devices with the profiler or the log: times of verbs, and kernels of GPUs
#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "engine/core/device.h"
#include "engine/core/interceptor.h"
#include "engine/ops/ops.h"
#include "engine/ops/optim.h"
#include "engine/profile/profile.h"
#include "engine/profile/verb_log.h"
#include "kernels/profile.h"

namespace mt::profile {
namespace {

// ---- names and numbers of verbs and their operations, for the tree of calls ---------------------

struct VerbDetail {
  uint64_t detail = 0;
  std::string (*name)(const char* verb, uint64_t detail) = nullptr;
};

template <class... Op> const char* name_in(uint64_t i, op::List<Op...>) {
  static constexpr const char* names[] = {Op::info.name...};
  return names[i];
}
std::string map_name(const char* verb, uint64_t detail) {
  const uint64_t op = detail >> 2;
  const bool gradient = (detail & 3) || op >= uint64_t(kOps);
  return fmt::format("{} {}{}", verb, name_in(op, op::Mapped{}), gradient ? " gradient" : "");
}
template <class List> std::string listed_name(const char* verb, uint64_t detail) {
  return fmt::format("{} {}", verb, name_in(detail, List{}));
}
std::string copy_name(const char* verb, uint64_t detail) {
  const Dtype to = Dtype(detail >> 8), from = Dtype(detail & 255);
  if (to == from) return verb;
  return fmt::format("convert {} to {}", dtype_name(from), dtype_name(to));
}

std::string optimizer_name(const char* verb, uint64_t rule) {
  return fmt::format("{} {}", verb, optimizer_row(int(rule)).info->name);
}

VerbDetail detail_of(const auto&) { return {}; }
VerbDetail detail_of(const Map& m) { return {uint64_t(m.op) << 2 | uint64_t(m.part), map_name}; }
VerbDetail detail_of(const MapNumbers& m) { return detail_of(static_cast<const Map&>(m)); }
VerbDetail detail_of(const Reduce& r) { return {uint64_t(r.op), listed_name<op::Reductions>}; }
VerbDetail detail_of(const Scan& s) { return {uint64_t(s.op), listed_name<op::Scans>}; }
VerbDetail detail_of(const Copy& c) { return {uint64_t(c.to) << 8 | uint64_t(c.from), copy_name}; }
VerbDetail detail_of(const Optimize& o) { return {uint64_t(o.rule), optimizer_name}; }

// ---- verbs that are measured --------------------------------------------------------------------

#define MT_NAME(result, verb, Argument) #verb,
constexpr const char* kNames[] = {MT_VERBS(MT_NAME) MT_CPU_VERBS(MT_NAME)
                                      MT_GPU_VERBS(MT_NAME) "alloc",
                                  "free",
                                  "sync",
                                  "upload",
                                  "download",
                                  "map_numbers",
                                  "fill",
                                  "upload_later"};
#undef MT_NAME

uint64_t key_of(const Device& d, Verb verb, const VerbDetail& w) {
  return uint64_t(1 + cuda_index(d)) << 40 | (uint64_t(verb) + 1) << 32 | w.detail;
}
std::string name_of(Verb verb, const VerbDetail& w) {
  return w.name ? w.name(kNames[int(verb)], w.detail) : kNames[int(verb)];
}

KernelProfile kernels() {
  return reinterpret_cast<KernelProfile>(cuda_symbol("mtorch_cuda_profile"));
}

void sink(const KernelTime& t) { add_kernel(t.tag, t.name, t.device, t.begin, t.end); }

/// Whether the plug-in reports its kernels, which it does once a GPU is in use.
std::atomic<bool> times_kernels{false};
void time_kernels() {
  const KernelProfile profile = times_kernels || depth() == 0 ? nullptr : kernels();
  if (!profile) return;
  profile(sink, current_path);
  times_kernels = true;
}

/// Measures each call, and prints its log line if requested.
struct Timer final : Interceptor {
  bool around(InterceptedCall& call) override {
    const bool on_cpu = is_cpu(call.device);
    if (!on_cpu) time_kernels();
    const Verb verb = call.verb == Verb::map_numbers ? Verb::map : call.verb;
    // CPU memory is from free lists, and there is nothing to wait for, so it has no row.
    const bool small = verb == Verb::alloc || verb == Verb::free || verb == Verb::sync;
    if (on_cpu && small && !watched()) return call.next();
    return with_argument(call.verb, call.argument, [&](const auto& a) {
      const VerbDetail w = detail_of(a);
      std::optional<VerbLine> line;
      if (watched()) [[unlikely]] {
        const std::string name = verb == Verb::copy ? "copy" : name_of(verb, w), text = describe(a);
        line.emplace(call.device.name + (' ' + name) + (text.empty() ? "" : " ") + text, run_of(a));
      }
      if (verb == Verb::run && !on_cpu) {  // its launch has its own row
        const bool done = call.next();
        if (line && !done) line->drop();
        return done;
      }
      const Scope scope(on_cpu ? Kind::kernel : Kind::launch, key_of(call.device, verb, w),
                        [&] { return (on_cpu ? "cpu: " : "launch: ") + name_of(verb, w); });
      return call.next();
    });
  }
};
Timer timer;

}  // namespace

void watch_devices() {
  set_process_interceptor(&timer);
  time_kernels();
}

void unwatch_devices() {
  if (const KernelProfile profile = kernels()) profile(nullptr, nullptr);
  times_kernels = false;
  if (!logging) set_process_interceptor(nullptr);
}

void collect_kernels() {
  if (const KernelProfile profile = kernels()) profile(sink, current_path);
}

// ---- the log of verbs ----------------------------------------------------------------------------

constinit bool logging = false;
thread_local VerbCalls* VerbCalls::current_ = nullptr;

VerbCalls::VerbCalls() : before_(std::exchange(current_, this)) { watch_devices(); }
VerbCalls::~VerbCalls() {
  current_ = before_;
  if (!current_ && depth() == 0) unwatch_devices();
}

VerbLine::~VerbLine() {
  if (text_.empty()) return;
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - began_;
  if (VerbCalls* const all = VerbCalls::current()) {
    const CpuCounters now = cpu_counters();
    all->calls.push_back(
        {std::move(text_),
         run_ ? std::optional(*run_) : std::nullopt,
         took.count(),
         {now.loops - work_.loops, now.pieces - work_.pieces, now.products - work_.products,
          now.onednn - work_.onednn, now.elements - work_.elements, now.threads}});
    return;
  }
  text_ += fmt::format(" {:.1f} us\n", took.count());
  std::fwrite(text_.data(), 1, text_.size(),
              stderr);  // one write, so that lines of threads do not mix
}

void start_log() {
  const char* const setting = std::getenv("MTORCH_LOG");
  if (!setting || !*setting || logging) return;
  if (std::string_view(setting) != "verbs") {
    std::fprintf(stderr, "mtorch: MTORCH_LOG=%s is ignored; the only log is 'verbs'\n", setting);
    return;
  }
  logging = true;
  watch_devices();
}

}  // namespace mt::profile
