// graph.cu -- events, and graphs: verbs captured once and replayed, with a private memory pool
//
// During capture, memory comes from the arena of the graph: a block that is freed during it can be
// reused, since replays keep the order. A block from before the capture may be read by kernels of
// the graph. Therefore all words of all kernel arguments are recorded, and a freed block that one
// of them points into is held until the graph is destroyed, as in a conservative garbage collector.
#include <algorithm>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "kernels/cuda/cublas.h"
#include "kernels/cuda/cudnn.h"
#include "kernels/cuda/nccl.h"
#include "kernels/cuda/state.h"

namespace mt::cuda {
namespace {

constexpr size_t kStep = 512, kFirstChunk = size_t(2) << 20, kLargestChunk = size_t(64) << 20;
constexpr int kClasses = 16 + 4 * 40;

struct Chunk {
  char* data;
  size_t bytes, used;
};
enum class Kind { memory, pinned, graph };
struct HeldBlock {
  void* data;
  size_t bytes;
  Kind kind;
};

}  // namespace

struct Graph {
  Graph* next = nullptr;
  cudaGraphExec_t exec = nullptr;
  std::vector<Chunk> chunks;
  std::vector<void*> idle[kClasses];  // blocks of the arena that were freed during capture
  std::vector<uintptr_t> words;       // of kernel arguments; sorted at the end of the capture
  std::vector<HeldBlock> held;
  int64_t live = 0;  // live blocks of the arena, and graphs that use it
  bool dropped = false;
  bool checks = false;  // it contains bounds checks
  bool reads_values = false;
  Replay* values = nullptr;  // in the GPU's memory

  bool owns(const void* p) const {
    return std::any_of(chunks.begin(), chunks.end(),
                       [p](const Chunk& c) { return p >= c.data && p < c.data + c.bytes; });
  }
  bool points_into(const void* data, size_t bytes) const {
    const uintptr_t from = reinterpret_cast<uintptr_t>(data);
    const auto first = std::lower_bound(words.begin(), words.end(), from);
    return first != words.end() && *first < from + (bytes ? bytes : 1);
  }
};

SizeClass class_of(size_t bytes) {
  if (bytes <= 16 * kStep) {
    const size_t steps = bytes ? (bytes + kStep - 1) / kStep : 1;
    return {int(steps) - 1, steps * kStep};
  }
  int power = 13;
  while ((size_t(2) << power) < bytes) ++power;  // 2^power < bytes <= 2^(power + 1)
  const size_t base = size_t(1) << power, step = base / 4;
  const size_t quarter = (bytes - base + step - 1) / step;  // 1..4
  return {16 + 4 * (power - 13) + int(quarter) - 1, base + quarter * step};
}

namespace {

/// The arenas of all graphs of a GPU and the addresses that they use, to look up a freed block.
struct Index {
  std::map<uintptr_t, Graph*> chunks;      // by their first address
  std::multimap<uintptr_t, Graph*> words;  // of graphs that can be replayed

  Graph* owner(const void* data) const {
    auto at = chunks.upper_bound(reinterpret_cast<uintptr_t>(data));
    return at != chunks.begin() && (--at)->second->owns(data) ? at->second : nullptr;
  }
  Graph* user(const void* data, size_t bytes) const {
    const uintptr_t from = reinterpret_cast<uintptr_t>(data), end = from + (bytes ? bytes : 1);
    auto at = words.lower_bound(from);
    while (at != words.end() && at->first < end && at->second->dropped) ++at;
    return at != words.end() && at->first < end ? at->second : nullptr;
  }
};
Index indices[kMaxGpus];
Index& index() { return indices[current_device()]; }

void destroy(State& g, Graph* graph) {
  for (Graph** at = &g.graphs; *at; at = &(*at)->next)
    if (*at == graph) {
      *at = graph->next;
      break;
    }
  for (const Chunk& c : graph->chunks) {
    index().chunks.erase(reinterpret_cast<uintptr_t>(c.data));
    if (!g.device_lost) check(cudaFree(c.data), "freeing a graph's memory");
  }
  delete graph;
}
/// Nothing can be destroyed during capture.
void destroy_if_unused(State& g, Graph* graph) {
  if (graph->dropped && !graph->exec && graph->live == 0 && !g.recording) destroy(g, graph);
}

/// Releases the blocks held by the graph: all of them, or only those its kernels do not use.
void release_held(State& g, Graph* graph, bool all) {
  for (const HeldBlock& h : std::exchange(graph->held, {})) {
    if (!all && (h.kind == Kind::graph || graph->points_into(h.data, h.bytes))) {
      graph->held.push_back(h);
    } else if (h.kind == Kind::graph) {
      Graph* const other = static_cast<Graph*>(h.data);
      --other->live;
      destroy_if_unused(g, other);
    } else if (h.kind == Kind::pinned) {
      unpin(h.data);
    } else {
      give(h.data, h.bytes);
    }
  }
}

/// Destroys the executable graph; its arena stays while tensors are in it.
void destroy_exec(State& g, Graph* graph) {
  wait();
  if (graph->exec) check(cudaGraphExecDestroy(graph->exec), "destroying a graph");
  graph->exec = nullptr;
  graph->dropped = true;
  std::erase_if(index().words, [graph](const auto& word) { return word.second == graph; });
  release_held(g, graph, true);
  destroy_if_unused(g, graph);
}

__global__ void set_values(Replay values, Replay* at) { *at = values; }

constexpr int kNumbers = 256;
struct Numbers {
  double of[kNumbers];
};
__global__ void set_numbers(const __grid_constant__ Numbers numbers, int n, double* at) {
  if (int(threadIdx.x) < n) at[threadIdx.x] = numbers.of[threadIdx.x];
}

}  // namespace

// ---- the arena ----------------------------------------------------------------------------------

void* arena_take(size_t bytes, bool fresh) {
  Graph* const graph = state().recording;
  const SizeClass c = class_of(bytes);
  if (c.index >= kClasses) return nullptr;
  std::vector<void*>& idle = graph->idle[c.index];
  if (!idle.empty() && !fresh) {
    void* const block = idle.back();
    idle.pop_back();
    ++graph->live;
    return block;
  }
  Chunk* last = graph->chunks.empty() ? nullptr : &graph->chunks.back();
  if (!last || last->bytes - last->used < c.bytes) {
    size_t size = last ? std::min(2 * last->bytes, kLargestChunk) : kFirstChunk;
    size = std::max(size, (c.bytes + kFirstChunk - 1) / kFirstChunk * kFirstChunk);
    void* data = nullptr;
    if (cudaMalloc(&data, size) != cudaSuccess) {
      cudaGetLastError();
      return nullptr;
    }
    last = &graph->chunks.emplace_back(Chunk{static_cast<char*>(data), size, 0});
    index().chunks.emplace(reinterpret_cast<uintptr_t>(data), graph);
  }
  void* const block = last->data + last->used;
  last->used += c.bytes;
  ++graph->live;
  return block;
}

bool graph_gives(void* data, size_t bytes, bool pinned) {
  State& g = state();
  if (Graph* const graph = pinned ? nullptr : index().owner(data)) {
    --graph->live;
    if (graph == g.recording) graph->idle[class_of(bytes).index].push_back(data);
    else destroy_if_unused(g, graph);
    return true;
  }
  const HeldBlock block{data, bytes, pinned ? Kind::pinned : Kind::memory};
  Graph* const user = g.recording ? g.recording : index().user(data, bytes);
  if (user) user->held.push_back(block);
  return user != nullptr;
}

int64_t arena_bytes() {
  int64_t n = 0;
  for (const Graph* graph = state().graphs; graph; graph = graph->next)
    for (const Chunk& c : graph->chunks) n += int64_t(c.bytes);
  return n;
}

// ---- recording ----------------------------------------------------------------------------------

bool capturing() { return state().recording != nullptr; }

void keep(const void* arguments, size_t bytes) {
  for (size_t i = 0; i + sizeof(uintptr_t) <= bytes; i += sizeof(uintptr_t)) {
    uintptr_t word;
    std::memcpy(&word, static_cast<const char*>(arguments) + i, sizeof word);
    if (word >= 65536) state().recording->words.push_back(word);
  }
}

/// Allocates unused memory that lives as long as the arena.
void* take_for_replays(Graph* graph, size_t bytes) {
  void* const data = arena_take(bytes, true);
  if (data) --graph->live;
  else check(cudaErrorMemoryAllocation, "recording a graph");
  return data;
}
const Replay* replay_values() {
  Graph* const graph = state().recording;
  if (!graph) return nullptr;
  if (!graph->values) graph->values = static_cast<Replay*>(take_for_replays(graph, sizeof(Replay)));
  graph->reads_values = graph->values != nullptr;
  return graph->values;
}
double* graph_numbers(int64_t n) {
  return static_cast<double*>(take_for_replays(state().recording, n * sizeof(double)));
}

bool begin_capture() {
  State& g = state();
  cublas();  // before the capture: otherwise its products would never use cuBLAS
  cudnn(0);
  trim();  // the arena needs memory from the driver, which the pool may hold
  if (!check(cudaStreamBeginCapture(g.stream, cudaStreamCaptureModeRelaxed), "recording a graph"))
    return false;
  Graph* const graph = new Graph;
  graph->next = g.graphs;
  g.graphs = g.recording = graph;
  return true;
}

void* end_capture(bool keep) {
  State& g = state();
  Graph* const graph = g.recording;
  cudaGraph_t recorded = nullptr;
  cudaError_t e = cudaStreamEndCapture(g.stream, &recorded);
  if (e == cudaSuccess && keep) e = cudaGraphInstantiate(&graph->exec, recorded, 0);
  if (recorded) cudaGraphDestroy(recorded);
  g.recording = nullptr;
  if (e != cudaSuccess) {
    cudaGetLastError();
    if (keep) check(e, "recording a graph");
  }
  const bool is_usable = e == cudaSuccess && keep && !g.out_of_memory && !g.device_lost;
  std::vector<uintptr_t>& words = graph->words;
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  if (is_usable) {
    for (Graph* other = g.graphs; other; other = other->next)
      if (other != graph &&
          std::any_of(other->chunks.begin(), other->chunks.end(),
                      [graph](const Chunk& c) { return graph->points_into(c.data, c.bytes); })) {
        graph->held.push_back({other, 0, Kind::graph});
        ++other->live;
      }
    for (const uintptr_t word : words) index().words.emplace(word, graph);
    release_held(g, graph, false);
  }
  // Destroys graphs and arenas that were dropped during the capture.
  for (Graph* other = g.graphs; other;) {
    const bool deferred = other != graph && other->dropped && (other->exec || other->live == 0);
    if (deferred) destroy_exec(g, other);
    other = deferred ? g.graphs : other->next;
  }
  if (is_usable) return graph;
  destroy_exec(g, graph);
  return nullptr;
}

void replay(void* which, const Replay& values) {
  State& g = state();
  Graph* const graph = static_cast<Graph*>(which);
  if (stopped()) return;
  const Timed timed("graph");
  if (graph->reads_values) launch("replay", set_values, 1, 1, values, graph->values);
  check(cudaGraphLaunch(graph->exec, g.stream), "launching a graph");
  g.unsettled |= graph->checks;
  started("a graph's replay");
}

void write_numbers(double* to, const double* from, int64_t n) {
  Numbers part;
  for (int64_t i = 0; i < n; i += kNumbers) {
    const int64_t some = std::min<int64_t>(n - i, kNumbers);
    std::memcpy(part.of, from + i, some * sizeof(double));
    launch("numbers", set_numbers, 1, kNumbers, part, int(some), to + i);
  }
}

void destroy_graph(void* which) {
  State& g = state();
  Graph* const graph = static_cast<Graph*>(which);
  if (g.recording) graph->dropped = true;  // destroyed at the end of the capture
  else destroy_exec(g, graph);
}

BoundsCheck new_bounds_check() {
  State& g = state();
  if (g.recording) g.recording->checks = true;
  else g.unsettled = true;
  return {g.found, ++g.checks};
}

// ---- events -------------------------------------------------------------------------------------

void* event() {
  cudaEvent_t e = nullptr;
  return check(cudaEventCreateWithFlags(&e, cudaEventDefault), "creating an event") ? e : nullptr;
}
void event_destroy(void* e) { check(cudaEventDestroy(static_cast<cudaEvent_t>(e)), "an event"); }
void event_record(void* e) {
  check(cudaEventRecord(static_cast<cudaEvent_t>(e), state().stream), "recording an event");
}
void event_wait(void* e) {
  ++state().waits;
  wait_for_groups();
  check(cudaEventSynchronize(static_cast<cudaEvent_t>(e)), "waiting for an event");
}
bool event_done(void* e) {
  const cudaError_t error = cudaEventQuery(static_cast<cudaEvent_t>(e));
  if (error == cudaErrorNotReady) return cudaGetLastError(), false;
  return check(error, "querying an event");
}
float event_ms(void* first, void* second) {
  float ms = -1;
  const bool known = check(
      cudaEventElapsedTime(&ms, static_cast<cudaEvent_t>(first), static_cast<cudaEvent_t>(second)),
      "measuring the time between events");
  return known ? ms : -1;
}

}  // namespace mt::cuda
