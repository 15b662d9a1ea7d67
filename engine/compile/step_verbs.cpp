// step_verbs.cpp -- the recorder in the tables of verbs: of the CPU, and of the GPU that a step works on
#include <algorithm>
#include <mutex>

#include "engine/compile/replay.h"
#include "engine/compile/verb_fields.h"
#include "engine/core/device.h"
#include "engine/core/host.h"
#include "engine/ops/generator.h"

namespace mt {

// ---- a call -----------------------------------------------------------------------------------------------

struct StepRecorder::PointerCheck : AnyField {
  StepRecorder& recorder;
  StepCall& call;
  bool known = true;
  template <class T> void pointer(T*& p, bool out) {
    known = known && (!p || recorder.check(reinterpret_cast<std::byte*>(&p), out, call));
  }
  template <class... T> void in(T*&... p) { (pointer(p, false), ...); }
  template <class... T> void out(T*&... p) { (pointer(p, true), ...); }
};

template <class A>
void StepRecorder::add(Verb verb, StepCall::Run run, const Device& device, const A& given) {
  if (!why_.empty()) return;
  const char* const name = host.function();
  const std::string by = name ? name : "an operation";
  if constexpr (!kRecords<A>) {
    return refuse(by + " cannot be recorded");
  } else {
    const auto* const bytes = reinterpret_cast<const std::byte*>(&given);
    std::byte* const kept = replay_->arguments_.emplace_back(bytes, bytes + sizeof given).data();
    StepCall call{verb, run, &device, kept, nullptr, 0, {}};
    A& a = *reinterpret_cast<A*>(kept);
    PointerCheck pointers{{}, *this, call};
    fields(a, pointers);
    if (!pointers.known)
      return refuse(by + " reads numbers that no verb of the device has written in the step");
    if constexpr (requires { a.program->numbers; }) {
      if (a.numbers) {
        const auto* const from = reinterpret_cast<const std::byte*>(a.numbers);
        const size_t size = sizeof(double) * a.program->numbers;
        a.numbers =
            reinterpret_cast<const double*>(numbers_.emplace_back(from, from + size).data());
      }
    } else if constexpr (std::is_same_v<A, Random>) {
      if (a.seed != default_generator().initial_seed())
        return refuse(by + " draws from a generator of its own");
      check_generator(a.offset);
      drawn_ = std::max(drawn_, default_generator().counter());
      call.random = &a, call.place = a.offset - begun_;
    }
    if constexpr (std::is_base_of_v<Map, A> || std::is_same_v<A, Reduce>)
      if (host.where && fuses_) call.where = host.where();
    calls_.push_back(std::move(call));
  }
}

// ---- the tables while somebody records --------------------------------------------------------------------

namespace {

struct Table {
  Device* device = nullptr;
  Gpu verbs{};  // what it holds otherwise; of the CPU no more than its Device
  int recorders = 0;
};
Table tables[2];   // of the CPU, of a GPU
std::mutex guard;  // other threads' calls pass through

/// The call, recorded where this thread records.
auto recorded(Verb verb, StepCall::Run run, const Device& device, const auto& a, const auto& call) {
  StepRecorder* const r = StepRecorder::current();
  if (r) r->add(verb, run, device, a);
  if constexpr (std::is_same_v<decltype(call()), bool>) {
    const bool there = call();
    if (r && !there) fail("a position is not there; call the step itself to see which");
    return there;
  } else {
    call();
  }
}

template <class T> struct Recorded;
template <class R, class A> struct Recorded<R (*Device::*)(const A&)> {
  template <R (*Device::*verb)(const A&)> static bool run(const Device& d, const void* argument) {
    const A& a = *static_cast<const A*>(argument);
    if constexpr (std::is_same_v<R, bool>) return (d.*verb)(a);
    else return (d.*verb)(a), true;
  }
  template <int T, R (*Device::*verb)(const A&), Verb v> static R call(const A& a) {
    const Table& t = tables[T];
    return recorded(v, run<verb>, *t.device, a, [&] { return (t.verbs.*verb)(a); });
  }
};

// ---- what GPUs have beside the verbs ----------------------------------------------------------------------

const Table& gpu_table = tables[1];

void map_numbers(const Map& m, unsigned numbers) {
  const auto call = [&] { gpu_table.verbs.map_numbers(m, numbers); };
  if (!StepRecorder::current()) return call();
  const auto run = [](const Device& d, const void* argument) {
    const MapNumbers& given = *static_cast<const MapNumbers*>(argument);
    return gpu_of(d).map_numbers(given, given.numbers), true;
  };
  recorded(Verb::map_numbers, run, *gpu_table.device, MapNumbers{m, numbers}, call);
}
void fill(const Copy& c) {
  const auto run = [](const Device& d, const void* argument) {
    return gpu_of(d).fill(*static_cast<const Copy*>(argument)), true;
  };
  recorded(Verb::fill, run, *gpu_table.device, c, [&] { gpu_table.verbs.fill(c); });
}
/// A copy between host and GPU by `now`, in a replay by `later`: memory that it uploads from may change
/// at once.
template <Verb verb, auto now, auto later = now>
void move(void* to, const void* from, size_t bytes) {
  const auto run = [](const Device& d, const void* argument) {
    const Move& m = *static_cast<const Move*>(argument);
    return (d.*later)(m.to, m.from, m.bytes), true;
  };
  recorded(verb, run, *gpu_table.device, Move{to, from, bytes},
           [&] { (gpu_table.verbs.*now)(to, from, bytes); });
}

bool (*program_on_gpu)(const Run&, const Device&) = nullptr;  // what host.run_on_gpu is otherwise
/// Its launch is a call as one of a verb, none beside them.
bool run_on_gpu(const Run& r, const Device& d) {
  struct Unrecorded {
    Recording* const recorder = std::exchange(step_recorder, nullptr);
    ~Unrecorded() { step_recorder = recorder; }
  };
  const auto launched = [&] { return Unrecorded(), program_on_gpu(r, d); };
  StepRecorder* const recorder = StepRecorder::current();
  if (!launched()) return false;
  if (recorder) recorder->add(Verb::run, StepRecorder::run_program, d, r);
  return true;
}

// ---- standing there ---------------------------------------------------------------------------------------

template <int T> void put(Device& table) {
#define MT_RECORD(result, verb, Argument) \
  if (table.verb)                         \
    table.verb = Recorded<decltype(&Device::verb)>::call<T, &Device::verb, Verb::verb>;
  MT_VERBS(MT_RECORD)
  if constexpr (T == 0) {
    MT_CPU_VERBS(MT_RECORD)
  } else {
    MT_GPU_VERBS(MT_RECORD)
  }
#undef MT_RECORD
}
bool stands(const Table& t) {
  constexpr auto of_cpu = Recorded<decltype(&Device::map)>::call<0, &Device::map, Verb::map>;
  constexpr auto of_gpu = Recorded<decltype(&Device::map)>::call<1, &Device::map, Verb::map>;
  return t.device->map == (&t == tables ? of_cpu : of_gpu);
}

}  // namespace

bool StepRecorder::run_program(const Device& d, const void* argument) {
  if (!is_cpu(d)) return host.run_on_gpu(*static_cast<const Run*>(argument), d);
  return Recorded<decltype(&Device::run)>::run<&Device::run>(d, argument);
}

bool StepRecorder::stand_in(const Device& device) {
  const bool on_cpu = is_cpu(device);
  const std::lock_guard lock(guard);
  Table& t = tables[on_cpu ? 0 : 1];
  if (t.recorders > 0 && t.device != &device) return false;
  // Its maker keeps it in memory that is not constant.
  t.device = const_cast<Device*>(&device);
  if (t.recorders++ > 0) return true;
  if (!on_cpu && host.run_on_gpu) program_on_gpu = std::exchange(host.run_on_gpu, run_on_gpu);
  // The profiler may have put the recorder's verbs back after the last recording.
  if (stands(t)) return true;
  if (on_cpu) {
    static_cast<Device&>(t.verbs) = device;
    put<0>(*t.device);
    return true;
  }
  Gpu& gpu = static_cast<Gpu&>(*t.device);
  t.verbs = gpu;
  put<1>(gpu);
  gpu.map_numbers = map_numbers, gpu.fill = fill;
  gpu.download = move<Verb::download, &Device::download>;
  gpu.upload = move<Verb::upload, &Device::upload>;
  gpu.upload_later = move<Verb::upload, &Gpu::upload_later, &Device::upload>;
  return true;
}
void StepRecorder::leave(const Device& device) {
  const std::lock_guard lock(guard);
  Table& t = tables[is_cpu(device) ? 0 : 1];
  if (--t.recorders > 0) return;
  if (program_on_gpu && !is_cpu(device)) host.run_on_gpu = std::exchange(program_on_gpu, nullptr);
  if (!stands(t)) return;
  if (is_cpu(device)) *t.device = t.verbs;
  else static_cast<Gpu&>(*t.device) = t.verbs;
}

}  // namespace mt
