// runtime.cpp -- CUDA's runtime for the emulation: memory, streams, events, graphs, errors to order
//
// The first stream does its work at once, unless it waits for another, whose work is done as late as possible.
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <map>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace {

using Work = std::function<void()>;

int read_number(const char*& text) {
  char* end = nullptr;
  const long n = std::strtol(text, &end, 10);
  text = *end == ':' ? end + 1 : end;
  return int(n);
}

/// What the environment orders to go wrong.
struct Orders {
  int launch = -1, error = 0;
  int count_error = 0, driver = 13000;
  size_t memory = size_t(1) << 32;

  Orders() {
    if (const char* text = std::getenv("MTORCH_EMULATED_FAULT"))
      launch = read_number(text), error = read_number(text);
    if (const char* text = std::getenv("MTORCH_EMULATED_COUNT"))
      count_error = read_number(text), driver = read_number(text);
    if (const char* text = std::getenv("MTORCH_EMULATED_MEMORY"))
      memory = size_t(std::strtoull(text, nullptr, 10));
  }
};
const Orders& orders() {
  static const Orders o;
  return o;
}

bool stays(cudaError_t e) { return e == 214 || e == 220 || e == 999 || (e >= 700 && e < 800); }

cudaError_t last = cudaSuccess, sticky = cudaSuccess;
int launches = 0;
size_t held = 0, kept = 0;  // bytes in use, and freed but not given back
std::map<void*, size_t> blocks, pinned;
std::vector<Work>* recording = nullptr;
bool spoilt = false;  // something was called that a capture does not allow

/// What a call answers that needs the GPU in order.
cudaError_t answer(cudaError_t e = cudaSuccess) {
  if (sticky != cudaSuccess) e = sticky;
  if (e != cudaSuccess) last = e;
  return e;
}
cudaError_t refuse_in_capture() {
  if (!recording) return answer();
  spoilt = true;
  return answer(cudaErrorStreamCaptureUnsupported);
}

/// Work that has not been done yet, in order: each is tried until it returns that it is done.
struct Stream {
  std::deque<std::function<bool()>> steps;
  uint64_t begun = 0, done = 0;

  void push(std::function<bool()> step) {
    steps.push_back(std::move(step));
    ++begun;
  }
  /// Returns whether nothing is left.
  bool advance() {
    for (; !steps.empty() && steps.front()(); ++done) steps.pop_front();
    return steps.empty();
  }
};
Stream first;
Stream& stream_of(cudaStream_t s) { return s ? *static_cast<Stream*>(s) : first; }

cudaError_t queue(Work work) {
  if (recording) recording->push_back(std::move(work));
  else if (sticky != cudaSuccess) return answer();
  else if (first.advance()) work();
  else first.push([work = std::move(work)] { return work(), true; });
  return answer();
}

cudaError_t take(void** p, size_t n) {
  if (sticky != cudaSuccess) return answer();
  const size_t size = (n + 511) / 512 * 512;
  if (held + size > orders().memory) return answer(cudaErrorMemoryAllocation);
  *p = emulation::allocate(size);
  if (!*p) return answer(cudaErrorMemoryAllocation);
  blocks[*p] = size;
  held += size;
  if (held + kept > orders().memory) kept = orders().memory - held;
  return cudaSuccess;
}
cudaError_t put(void* p) {
  const auto found = blocks.find(p);
  if (found == blocks.end()) {
    std::fprintf(stderr, "emulation: memory is freed that was not given\n");
    std::abort();
  }
  emulation::fill(p, 0xdd, std::min(found->second, size_t(1) << 20));  // whoever reads it sees that
  held -= found->second, kept += found->second;
  blocks.erase(found);
  emulation::release(p);
  return answer();
}

using Clock = std::chrono::steady_clock;
struct Event {
  Clock::time_point at;
  bool recorded = false;
  Stream* stream = &first;
  uint64_t place = 0;  // so many of the stream's steps come before

  bool done() { return stream->done >= place || (stream->advance(), stream->done >= place); }
};
Event& event_of(cudaEvent_t e) { return *static_cast<Event*>(e); }

}  // namespace

void emulation::start(const char* name, bool together, dim3 grid, dim3 block, size_t shared,
                      Work kernel) {
  if (!recording && ++launches == orders().launch) {
    const cudaError_t e = static_cast<cudaError_t>(orders().error);
    if (stays(e)) sticky = e;  // seen later
    else last = e;
    return;
  }
  if (sticky == cudaSuccess)
    queue([=, run = std::move(kernel)] { launch(name, together, grid, block, shared, run); });
}

void emulation::start_on(void* stream, std::function<bool()> step) {
  if (!recording) return stream_of(stream).push(std::move(step));
  recording->push_back([step = std::move(step)] {
    while (!step()) std::this_thread::yield();
  });
}
bool emulation::is_held(const void* p, size_t bytes) {
  auto at = blocks.upper_bound(const_cast<void*>(p));
  if (at == blocks.begin()) return false;
  --at;
  const auto* const begin = static_cast<const char*>(at->first);
  return static_cast<const char*>(p) + bytes <= begin + at->second;
}

cudaError_t cudaMallocAsync(void** p, size_t n, cudaStream_t) {
  if (n > size_t(1) << 44) return answer(cudaErrorInvalidValue);
  const cudaError_t e = refuse_in_capture();
  return e == cudaSuccess ? take(p, n) : e;
}
cudaError_t cudaFreeAsync(void* p, cudaStream_t) {
  const cudaError_t e = refuse_in_capture();
  return e == cudaSuccess ? queue([p] { put(p); }) : e;
}
cudaError_t cudaMalloc(void** p, size_t n) { return take(p, n); }
cudaError_t cudaFree(void* p) {
  const cudaError_t e = refuse_in_capture();
  return e == cudaSuccess ? put(p) : e;
}
cudaError_t cudaHostAlloc(void** p, size_t n, unsigned) {
  *p = std::aligned_alloc(512, (n + 511) / 512 * 512);
  pinned[*p] = n;
  return answer();
}
cudaError_t cudaFreeHost(void* p) {
  if (pinned.erase(p) == 0) {
    std::fprintf(stderr, "emulation: page-locked memory is freed that was not given\n");
    std::abort();
  }
  std::free(p);
  return answer();
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t n, cudaMemcpyKind kind,
                            cudaStream_t) {
  if (kind != cudaMemcpyDeviceToDevice && recording) return refuse_in_capture();
  if (kind == cudaMemcpyHostToDevice && !first.advance()) {  // the call reads the host's memory
    const auto* const at = static_cast<const char*>(from);
    return queue([to, bytes = std::vector<char>(at, at + n)] {
      if (!bytes.empty()) emulation::copy(to, bytes.data(), bytes.size());
    });
  }
  return queue([=] {
    if (n) emulation::copy(to, from, n);
  });
}
cudaError_t cudaMemsetAsync(void* p, int v, size_t n, cudaStream_t) {
  return queue([=] {
    if (n) emulation::fill(p, v, n);
  });
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  while (!recording && !stream_of(s).advance()) std::this_thread::yield();
  return refuse_in_capture();
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) {
  *s = nullptr;
  return answer();
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* s, unsigned, int) {
  *s = new Stream;
  return answer();
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0, *greatest = -5;
  return answer();
}
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
  if (recording) return answer();
  // Other processes need this one, which may wait for them elsewhere next: work is put off only if it is stuck.
  constexpr auto kPatience = std::chrono::milliseconds(800);
  for (const auto begin = Clock::now(); !event_of(e).done(); std::this_thread::yield()) {
    if (Clock::now() - begin < kPatience) continue;
    stream_of(s).push([e = event_of(e)]() mutable { return e.done(); });
    break;
  }
  return answer();
}
cudaError_t cudaGetLastError() {
  const cudaError_t e = last;
  last = cudaSuccess;
  return e;
}
const char* cudaGetErrorString(cudaError_t e) {
  switch (e) {
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    case cudaErrorLaunchFailure: return "unspecified launch failure";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    default: return "an error of the emulation";
  }
}
const char* cudaGetErrorName(cudaError_t e) {
  switch (e) {
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated: return "cudaErrorStreamCaptureInvalidated";
    default: return "cudaErrorUnknown";
  }
}
/// Whether MTORCH_EMULATED_GPU has the word.
static bool is_said(const char* word) {
  const char* const text = std::getenv("MTORCH_EMULATED_GPU");
  return text && std::string_view(text).find(word) != std::string_view::npos;
}
cudaError_t cudaGetDeviceCount(int* n) {
  *n = orders().count_error ? 0 : is_said("eight") ? 8 : 2;
  return answer(static_cast<cudaError_t>(orders().count_error));
}
static int current = 0;
cudaError_t cudaSetDevice(int device) {
  current = device;
  return answer();
}
cudaError_t cudaGetDevice(int* device) {
  *device = current;
  return answer();
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int room, int device) {
  std::snprintf(text, size_t(room), "0000:%02x:00.0", device);
  return answer();
}
cudaError_t cudaDriverGetVersion(int* v) {
  *v = orders().driver;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* v) {
  const char* const text = std::getenv("MTORCH_EMULATED_RUNTIME");
  *v = text ? std::atoi(text) : 13000;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  *p = {"an emulation on the CPU",
        4,
        is_said("turing") ? 7 : 9,
        is_said("turing") ? 5 : 0,
        orders().memory,
        32,
        1024,
        2048,
        65536,
        48 << 10,
        1 << 20};
  return answer();
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int) {
  *value = which == cudaDevAttrMemoryPoolsSupported ? !is_said("nopools") : is_said("pageable");
  return answer();
}
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* p, int) {
  *p = nullptr;
  return answer();
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return answer(); }
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr, void* value) {
  const uint64_t reserved = held + kept;
  std::memcpy(value, &reserved, sizeof reserved);
  return answer();
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) {
  kept = 0;
  return refuse_in_capture();
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *total = orders().memory;
  *free = *total - held - kept;
  return answer();
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) {
  *e = new Event;
  return answer();
}
cudaError_t cudaEventDestroy(cudaEvent_t e) {
  delete static_cast<Event*>(e);
  return answer();
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  Event& event = event_of(e);
  event.at = Clock::now();
  event.recorded = true;
  event.stream = &stream_of(s);
  event.place = recording ? 0 : event.stream->begun;
  return answer();
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  while (!event_of(e).done()) std::this_thread::yield();
  return answer();
}
cudaError_t cudaEventQuery(cudaEvent_t e) {
  return answer(event_of(e).done() ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t first, cudaEvent_t second) {
  const auto span = static_cast<Event*>(second)->at - static_cast<Event*>(first)->at;
  *ms = std::chrono::duration<float, std::milli>(span).count();
  return answer();
}

cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  if (recording) return answer(cudaErrorStreamCaptureUnsupported);
  recording = new std::vector<Work>;
  spoilt = false;
  return answer();
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  *graph = nullptr;
  std::vector<Work>* const done = std::exchange(recording, nullptr);
  if (spoilt || sticky != cudaSuccess) {
    delete done;
    return answer(cudaErrorStreamCaptureInvalidated);
  }
  *graph = done;
  return answer();
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  *exec = new std::vector<Work>(*static_cast<std::vector<Work>*>(graph));
  return answer();
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete static_cast<std::vector<Work>*>(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t) {
  for (const Work& work : *static_cast<std::vector<Work>*>(exec)) queue(work);
  return answer();
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete static_cast<std::vector<Work>*>(exec);
  return answer();
}
