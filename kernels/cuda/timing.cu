// timing.cu -- the GPU time of each launch, for the profiler: a pair of events around it
#include <chrono>

#include "kernels/cuda/cuda.h"
#include "kernels/profile.h"

namespace mt::cuda {

bool timing = false;

namespace {

constexpr int kMaxLaunches = 1024;  // launches between two synchronizations

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// A point in time in the stream.
struct TimePoint {
  cudaEvent_t event = nullptr;
  void record() {
    if (!event) check(cudaEventCreateWithFlags(&event, cudaEventDefault), "timing");
    check(cudaEventRecord(event, stream()), "timing");
  }
  void wait() const { check(cudaEventSynchronize(event), "timing"); }
  int64_t since(const TimePoint& other) const {
    float ms = 0;
    check(cudaEventElapsedTime(&ms, other.event, event), "timing");
    return int64_t(double(ms) * 1e6);
  }
};

struct Launch {
  const char* name;
  const void* tag;
  TimePoint begin, end;
};
/// The launches of one GPU that are not reported yet, relative to a point whose time is known.
struct Clock {
  Launch launch[kMaxLaunches];
  int n = 0;
  TimePoint zero;
  int64_t zero_time = 0;
};
Clock clocks[kMaxGpus];
int open = 0;  // nested launches: a library call may queue kernels of ours
bool begun = false;
KernelSink sink = nullptr;
KernelTag tag = nullptr;

void report(int device) {
  Clock& c = clocks[device];
  if (c.n == 0) return;
  c.launch[c.n - 1].end.wait();
  for (int i = 0; i < c.n; ++i) {
    const Launch& l = c.launch[i];
    const int64_t begin = c.zero_time + l.begin.since(c.zero);
    sink({l.tag, l.name, device, begin, begin + l.end.since(l.begin)});
  }
  c.n = 0;
}

}  // namespace

void begin_timing(const char* name) {
  if (open++ > 0 || capturing()) return;
  const int device = current_device();
  Clock& c = clocks[device];
  // Event times are floats in milliseconds: after some seconds they are too imprecise.
  if (c.n == kMaxLaunches || (c.n > 0 && now() - c.zero_time > 4'000'000'000)) report(device);
  if (c.n == 0) {
    c.zero.record();
    c.zero.wait();
    c.zero_time = now();
  }
  Launch& l = c.launch[c.n];
  l.name = name, l.tag = tag();
  l.begin.record();
  begun = true;
}

void end_timing() {
  if (--open > 0 || !begun) return;
  begun = false;
  Clock& c = clocks[current_device()];
  c.launch[c.n].end.record();
  ++c.n;
}

}  // namespace mt::cuda

/// See kernels/profile.h.
extern "C" __attribute__((visibility("default"))) void mtorch_cuda_profile(mt::KernelSink sink,
                                                                           mt::KernelTag tag) {
  using namespace mt::cuda;
  if (sink) mt::cuda::sink = sink;
  for (int i = 0; mt::cuda::sink && i < mt::kMaxGpus; ++i) report(i);
  mt::cuda::tag = tag;
  timing = tag != nullptr;
}
