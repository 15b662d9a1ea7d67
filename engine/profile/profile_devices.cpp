// profile_devices.cpp -- devices under the profiler: verbs that take their time, and what GPUs ran
#include <fmt/format.h>

#include <array>
#include <utility>
#include <vector>

#include "engine/core/device.h"
#include "engine/core/dtype.h"
#include "engine/ops/ops.h"
#include "engine/profile/profile.h"
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

std::string map_name(const char* verb, uint64_t detail) {
  const char* op = op_row(int(detail >> 2)).info->name;
  return fmt::format("{} {}{}", verb, op, (detail & 3) ? " gradient" : "");
}
std::string reduction_name(const char* verb, uint64_t detail) {
  static const std::vector<const char*> names = [] {
    std::vector<const char*> list;
    op::for_each(op::Reductions{}, [&](auto r) { list.push_back(r.info.name); });
    return list;
  }();
  const char* name = detail < names.size()  ? names[detail]
                     : detail == kArgmax    ? "argmax"
                     : detail == kArgmin    ? "argmin"
                     : detail == kMoments   ? "moments"
                     : detail == kLogsumexp ? "logsumexp"
                                            : "";
  return fmt::format("{} {}", verb, name);
}
std::string copy_name(const char* verb, uint64_t detail) {
  const Dtype to = Dtype(detail >> 8), from = Dtype(detail & 255);
  if (to == from) return verb;
  return fmt::format("convert {} to {}", dtype_name(from), dtype_name(to));
}

template <class... A> What what(const A&...) { return {}; }
What what(const Map& m) { return {uint64_t(m.op) << 2 | uint64_t(m.part), map_name}; }
What what(const Reduce& r) { return {uint64_t(r.op), reduction_name}; }
What what(const Copy& c) { return {uint64_t(c.to) << 8 | uint64_t(c.from), copy_name}; }

// ---- verbs that take their time -------------------------------------------------------------------

template <auto verb> constexpr const char* name_of = "";
template <auto verb> constexpr int number_of = 0;
constexpr int kMapVerb = 6;

template <int D, auto verb> struct Timed;
template <int D, class R, class... A, R (*Device::*verb)(A...)> struct Timed<D, verb> {
  static R call(A... a) {
    const What w = what(a...);
    const uint64_t key = uint64_t(D) << 40 | uint64_t(number_of<verb>) << 32 | w.detail;
    const Scope scope(D == 0 ? Kind::kernel : Kind::launch, key, [&] {
      const char* const name = name_of<verb>;
      return (D == 0 ? "cpu: " : "launch: ") + (w.name ? w.name(name, w.detail) : name);
    });
    return (verbs[D].*verb)(a...);
  }
};

/// A GPU's map verb for numbers beside its tensors: counted as its map.
using MapNumbers = void (*)(const Map&, unsigned numbers);
MapNumbers map_numbers[kMostDevices] = {};
template <int D> void time_numbers(const Map& m, unsigned numbers) {
  const What w = what(m);
  const Scope scope(Kind::launch, uint64_t(D) << 40 | uint64_t(kMapVerb) << 32 | w.detail,
                    [&] { return "launch: " + w.name("map", w.detail); });
  map_numbers[D](m, numbers);
}

// clang-format off
#define MT_TIMED_VERBS(V)                                                                      \
  V(alloc, 1) V(free, 2) V(sync, 3) V(upload, 4) V(download, 5) V(map, kMapVerb) V(copy, 7)    \
  V(reduce, 8) V(scan, 9) V(sort, 10) V(softmax, 11) V(normalize, 12) V(matmul, 13)            \
  V(conv, 14) V(max_pool, 15) V(gather, 16) V(scatter, 17) V(ravel_index, 18) V(count_mask, 19)     \
  V(compress, 20) V(nonzero, 21) V(search, 22) V(random, 23) V(sgd, 24) V(adam, 25)
// clang-format on
#define MT_TIMED_NAME(verb, number)                                 \
  template <> constexpr const char* name_of<&Device::verb> = #verb; \
  template <> constexpr int number_of<&Device::verb> = number;
MT_TIMED_VERBS(MT_TIMED_NAME)
#undef MT_TIMED_NAME

template <int D> void take_time(Device& table) {
  // Memory of the CPU comes from free lists, and there is nothing to wait for.
#define MT_TIMED_VERB(verb, number) \
  if (table.verb && (D > 0 || number > 3)) table.verb = Timed<D, &Device::verb>::call;
  MT_TIMED_VERBS(MT_TIMED_VERB)
#undef MT_TIMED_VERB
  if (D > 0) map_numbers[D] = std::exchange(static_cast<Gpu&>(table).map_numbers, time_numbers<D>);
}
#undef MT_TIMED_VERBS

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
    if (tables[i] == &device) return;
    if (tables[i] || (i == 0) != is_cpu(device)) continue;
    tables[i] = const_cast<Device*>(&device);
    verbs[i] = device;
    takes(std::make_integer_sequence<int, kMostDevices>{})[size_t(i)](*tables[i]);
    break;
  }
  if (is_cpu(device)) return;
  if (const KernelProfile profile = kernels()) profile(sink, current_path);
}

}  // namespace

void watch_devices() {
  watch(cpu_device());
  for_each_cuda(watch);
  on_cuda_open = watch;
}

void unwatch_devices() {
  on_cuda_open = nullptr;
  for (int i = 0; i < kMostDevices; ++i)
    if (Device* table = std::exchange(tables[i], nullptr)) {
      *table = verbs[i];
      if (i > 0) static_cast<Gpu*>(table)->map_numbers = map_numbers[i];
    }
  if (const KernelProfile profile = kernels()) profile(nullptr, nullptr);
}

void collect_kernels() {
  if (const KernelProfile profile = kernels()) profile(sink, current_path);
}

}  // namespace mt::profile
