// profile_devices.cpp -- devices under the profiler or the log: verbs that take their time, and what GPUs ran
#include <fmt/format.h>

#include <array>
#include <optional>
#include <utility>

#include "engine/core/device.h"
#include "engine/core/host.h"
#include "engine/ops/ops.h"
#include "engine/ops/optim.h"
#include "engine/profile/profile.h"
#include "engine/profile/verb_log.h"
#include "kernels/profile.h"

namespace mt::profile {
namespace {

constexpr int kMostDevices = 1 + kMostGpus;  // the CPU is the first
Device verbs[kMostDevices];                  // what their tables hold otherwise
Device* tables[kMostDevices] = {};

// ---- names: a verb, and what it computes; and a number for each, for the tree of calls ------------

struct What {
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
std::string reduction_name(const char* verb, uint64_t detail) {
  return fmt::format("{} {}", verb, name_in(detail, op::Reductions{}));
}
std::string scan_name(const char* verb, uint64_t detail) {
  return fmt::format("{} {}", verb, name_in(detail, op::Scans{}));
}
std::string copy_name(const char* verb, uint64_t detail) {
  const Dtype to = Dtype(detail >> 8), from = Dtype(detail & 255);
  if (to == from) return verb;
  return fmt::format("convert {} to {}", dtype_name(from), dtype_name(to));
}

std::string optimizer_name(const char* verb, uint64_t rule) {
  return fmt::format("{} {}", verb, optimizer_row(int(rule)).info->name);
}

template <class... A> What what(const A&...) { return {}; }
What what(const Map& m) { return {uint64_t(m.op) << 2 | uint64_t(m.part), map_name}; }
What what(const Reduce& r) { return {uint64_t(r.op), reduction_name}; }
What what(const Scan& s) { return {uint64_t(s.op), scan_name}; }
What what(const Copy& c) { return {uint64_t(c.to) << 8 | uint64_t(c.from), copy_name}; }
What what(const Optimize& o) { return {uint64_t(o.rule), optimizer_name}; }

// ---- verbs that take their time -------------------------------------------------------------------

#define MT_ENUMERATOR(result, verb, Argument) verb,
enum class Verb : int {
  alloc,
  free,
  sync,
  upload,
  download,
  MT_VERBS(MT_ENUMERATOR) MT_CPU_VERBS(MT_ENUMERATOR) MT_GPU_VERBS(MT_ENUMERATOR)
};
#undef MT_ENUMERATOR
#define MT_NAME(result, verb, Argument) #verb,
constexpr const char* kNames[] = {
    "alloc",  "free",     "sync",
    "upload", "download", MT_VERBS(MT_NAME) MT_CPU_VERBS(MT_NAME) MT_GPU_VERBS(MT_NAME)};
#undef MT_NAME

constexpr uint64_t key_of(int device, Verb verb, const What& w) {
  return uint64_t(device) << 40 | (uint64_t(verb) + 1) << 32 | w.detail;
}

std::string name_of(Verb verb, const What& w) {
  const char* const name = kNames[int(verb)];
  return w.name ? w.name(name, w.detail) : name;
}
/// The line of the log on this call, while there is one.
template <class... A>
void write_line(std::optional<VerbLine>& line, int device, Verb verb, const What& w,
                const A&... a) {
  if (!watched()) [[likely]]
    return;
  const std::string name = verb == Verb::copy ? "copy" : name_of(verb, w), text = describe(a...);
  line.emplace(tables[device]->name + (' ' + name) + (text.empty() ? "" : " ") + text,
               run_of(a...));
}

template <auto function, Verb verb> struct Timed;
template <class R, class... A, R (*Device::*function)(A...), Verb verb>
struct Timed<function, verb> {
  template <int D> static R call(A... a) { return timed(D, a...); }
  __attribute__((noinline)) static R timed(int device, A... a) {
    const What w = what(a...);
    std::optional<VerbLine> line;
    write_line(line, device, verb, w, a...);
    const Scope scope(device == 0 ? Kind::kernel : Kind::launch, key_of(device, verb, w),
                      [&] { return (device == 0 ? "cpu: " : "launch: ") + name_of(verb, w); });
    return (verbs[device].*function)(a...);
  }
};

/// A GPU's map verb for numbers beside its tensors: counted as its map.
using MapNumbers = void (*)(const Map&, unsigned numbers);
MapNumbers map_numbers[kMostDevices] = {};
template <int D> void time_numbers(const Map& m, unsigned numbers) {
  const What w = what(m);
  std::optional<VerbLine> line;
  write_line(line, D, Verb::map, w, m);
  const Scope scope(Kind::launch, key_of(D, Verb::map, w),
                    [&] { return "launch: " + name_of(Verb::map, w); });
  map_numbers[D](m, numbers);
}

/// A GPU's kernel of a program, told as its run.
decltype(host.run_on_gpu) run_on_gpu = nullptr;
bool tell_program(const Run& r, const Device& device) {
  std::optional<VerbLine> line;
  if (watched()) line.emplace(std::string(device.name) + " run " + describe(r), &r);
  const bool done = run_on_gpu(r, device);
  if (line && !done) line->drop();
  return done;
}

template <int D> void take_time(Device& table) {
#define MT_TIME(result, verb, Argument) \
  if (table.verb) table.verb = Timed<&Device::verb, Verb::verb>::call<D>;
  MT_VERBS(MT_TIME)
  if constexpr (D == 0) {
    MT_CPU_VERBS(MT_TIME)
  } else {
    MT_GPU_VERBS(MT_TIME)
  }
#undef MT_TIME
  // Memory of the CPU comes from free lists, and there is nothing to wait for: not worth a row.
  if (D > 0 || watched()) {
    table.alloc = Timed<&Device::alloc, Verb::alloc>::call<D>;
    table.free = Timed<&Device::free, Verb::free>::call<D>;
    table.sync = Timed<&Device::sync, Verb::sync>::call<D>;
  }
  if constexpr (D > 0) {
    table.upload = Timed<&Device::upload, Verb::upload>::call<D>;
    table.download = Timed<&Device::download, Verb::download>::call<D>;
    map_numbers[D] = std::exchange(static_cast<Gpu&>(table).map_numbers, time_numbers<D>);
  }
}

using Take = void (*)(Device&);
template <int... D>
constexpr std::array<Take, sizeof...(D)> takes(std::integer_sequence<int, D...>) {
  return {take_time<D>...};
}

KernelProfile kernels() {
  return reinterpret_cast<KernelProfile>(cuda_symbol("mtorch_cuda_profile"));
}

void sink(const KernelTime& t) { add_kernel(t.tag, t.name, t.device, t.begin, t.end); }

/// A device's table may be written: its maker keeps it in memory that is not constant.
void watch(const Device& device) {
  for (int i = 0; i < kMostDevices; ++i) {
    if (tables[i] == &device) break;
    if (tables[i] || (i == 0) != is_cpu(device)) continue;
    tables[i] = const_cast<Device*>(&device);
    verbs[i] = device;
    takes(std::make_integer_sequence<int, kMostDevices>{})[i](*tables[i]);
    break;
  }
  if (is_cpu(device) || depth() == 0) return;
  if (const KernelProfile profile = kernels()) profile(sink, current_path);
}

}  // namespace

void watch_devices() {
  watch(cpu_device());
  for_each_cuda(watch);
  host.on_cuda_open = watch;
  if (!run_on_gpu && host.run_on_gpu) run_on_gpu = std::exchange(host.run_on_gpu, tell_program);
}

void unwatch_devices() {
  if (const KernelProfile profile = kernels()) profile(nullptr, nullptr);
  if (logging) return;
  host.on_cuda_open = nullptr;
  if (run_on_gpu) host.run_on_gpu = std::exchange(run_on_gpu, nullptr);
  for (int i = 0; i < kMostDevices; ++i)
    if (Device* table = std::exchange(tables[i], nullptr)) {
      *table = verbs[i];
      if (i > 0) static_cast<Gpu*>(table)->map_numbers = map_numbers[i];
    }
}

void collect_kernels() {
  if (const KernelProfile profile = kernels()) profile(sink, current_path);
}

}  // namespace mt::profile
