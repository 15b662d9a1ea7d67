// cuda.cpp -- GPU functions for Lua: memory, page-locked tensors, events, graphs, kernels in CUDA C; mt.cdiv
#include <cstdio>
#include <memory>

#include "bindings/functions/functions.h"
#include "engine/gpu/cuda_kernel.h"
#include "engine/gpu/graph.h"

namespace mt::lua {

template <> struct Arg<Gpu> {
  static constexpr Type type{kind::device};
  static const Gpu& get(const Args& a, int i) {
    const Device& d = a.device(i);
    if (is_cpu(d)) fail("{}: a GPU is needed, 'cuda' or 'cuda:0'", a.called());
    check_alive(d);
    return gpu_of(d);
  }
};

namespace {

// ---- objects that Lua owns ----------------------------------------------------------------------

struct Event {
  static constexpr char kShown[] = "an event of mt.cuda.Event";
  const Gpu& gpu;
  void* const event;
  bool recorded = false;

  explicit Event(const Gpu& g) : gpu(g), event(g.event()) {
    check_device(g);
    if (!event) fail("Event: out of memory");
  }
  Event(const Event&) = delete;
  ~Event() { gpu.event_destroy(event); }
};

/// A graph that Lua owns.
struct LuaGraph : Graph {
  static constexpr char kShown[] = "a graph of mt.cuda.graph";
  using Graph::Graph;
};

void check_recorded(const Event& e, const char* which) {
  if (!e.recorded) fail("{} event has not been recorded; use e:record()", which);
}

double elapsed_ms(const Event& first, const Event& second) {
  check_recorded(first, "elapsed_time: the first");
  check_recorded(second, "elapsed_time: the second");
  if (&first.gpu != &second.gpu)
    fail("elapsed_time: the events are of {} and {}", first.gpu.name, second.gpu.name);
  if (!first.gpu.event_done(first.event) || !second.gpu.event_done(second.event))
    fail("elapsed_time: the GPU has not reached both events yet; use e:synchronize()");
  const float ms = first.gpu.event_ms(first.event, second.event);
  check_device(first.gpu);
  return double(ms);
}

// ---- memory -------------------------------------------------------------------------------------

int memory_stats(Args& a) {
  const Gpu& gpu = Arg<Gpu>::get(a, 1);
  const GpuUse u = gpu.use();
  lua_createtable(a.L, 0, 12);
  a.set("products", gpu.gemm_library(false)), a.set("convolutions", gpu.conv_library(false));
  a.set("collectives", gpu.collective_library(false));
  a.set("allocated", u.allocated), a.set("peak", u.peak), a.set("reserved", u.reserved);
  a.set("free", u.free), a.set("total", u.total), a.set("allocations", u.allocations);
  a.set("launches", u.launches), a.set("copies", u.copies), a.set("waits", u.waits);
  return 1;
}

int device_properties(Args& a) {
  const Gpu& gpu = Arg<Gpu>::get(a, 1);
  const GpuProperties p = gpu.properties();
  lua_newtable(a.L);
  a.set("name", gpu.model), a.set("major", p.major), a.set("minor", p.minor);
  a.set("multi_processor_count", p.multi_processor_count), a.set("warp_size", p.warp_size);
  a.set("max_threads_per_block", p.max_threads_per_block);
  a.set("max_threads_per_multi_processor", p.max_threads_per_multi_processor);
  a.set("regs_per_multiprocessor", p.regs_per_multiprocessor);
  a.set("total_memory", p.total_memory), a.set("L2_cache_size", p.l2_cache_size);
  a.set("shared_memory_per_block", p.shared_memory_per_block);
  return 1;
}

const Entry kCudaFunctions[] = {
    {"get_device_properties(device)", "The properties of a GPU.", device_properties},
    {"memory_stats(device)",
     "How much memory of a GPU is in use, and what large products and convolutions run on.",
     memory_stats},
    {"empty_cache(device)", "Returns the cached memory to the driver.", bind<[](const Gpu& gpu) {
       check_may_wait(gpu);
       gpu.trim();
       check_device(gpu);
     }>},
    {"reset_peak(device)", "Resets `peak`.", bind<[](const Gpu& gpu) { gpu.reset_peak(); }>},
    {"Event(device)", "An event in the stream of a GPU.",
     bind<[](const Gpu& gpu) { return std::make_unique<Event>(gpu); }>},
    {"event_record(e)", "Records the event after all work so far.", bind<[](Event& e) {
       check_alive(e.gpu);
       if (capturing)
         fail("record: an event cannot be timed while a graph is recorded; time the call of g()");
       e.gpu.event_record(e.event);
       e.recorded = true;
     }>},
    {"event_wait(e)", "Waits until the GPU has reached the event.", bind<[](const Event& e) {
       check_recorded(e, "synchronize: the");
       check_may_wait(e.gpu);
       e.gpu.event_wait(e.event);
       check_device(e.gpu);
     }>},
    {"event_done(e)", "Whether the GPU has reached the event.", bind<[](const Event& e) {
       check_recorded(e, "query: the");
       check_alive(e.gpu);
       return e.gpu.event_done(e.event);
     }>},
    {"elapsed_time(first, second)", "Milliseconds between two events.", bind<elapsed_ms>},
    {"graph_record(device)", "Begins the recording of a graph, without Lua's collector.",
     [](Args& a) {
       Userdata<LuaGraph>::push(a.L, std::make_unique<LuaGraph>(Arg<Gpu>::get(a, 1)));
       lua_gc(a.L, LUA_GCSTOP, 0);
       return 1;
     }},
    {"graph_finish(g, keep=false)", "Ends the recording.",
     [](Args& a) {
       lua_gc(a.L, LUA_GCRESTART, 0);
       Userdata<LuaGraph>::at(a, 1).finish(a.boolean(2));
       return 0;
     }},
    {"graph_replay(g)", "Launches the graph.", bind<[](LuaGraph& g) {
       if (thread_state.zero_gradients)
         fail("cuda.graph: a process whose batches have ended cannot replay a graph in dist.join");
       g.replay();
     }>},
    {"graph_drop(g)", "Destroys a graph.",
     [](Args& a) { return Userdata<LuaGraph>::collect(a.L); }},
};

const Entry kCudaMethods[] = {
    {"pin_memory(x)",
     "The CPU tensor x in page-locked memory: x:pin_memory():to('cuda', {non_blocking=true}) "
     "does not wait. An error if CUDA cannot be used.",
     bind<pin_memory>},
    {"is_pinned(x)", "Whether x is in page-locked memory of the CPU.",
     bind<[](const Tensor& x) { return x.impl()->storage->pinned != nullptr; }>},
};

// ---- kernels in CUDA C, for cuda/kernel.lua --------------------------------------------------------

struct LuaCudaKernel : CudaKernel {
  using CudaKernel::CudaKernel;
  static constexpr char kShown[] = "a kernel of mt.cuda.kernel";
};
CudaKernel& kernel_at(const Args& a) { return Userdata<LuaCudaKernel>::at(a, 1); }

int compile(Args& a) {
  CudaSource s;
  s.text = a.text(1), s.name = a.text(2), s.options = a.strings(5), s.defines = a.text(6);
  a.table(4);
  for (int k = 1, n = int(lua_objlen(a.L, 4)); k < n; k += 3) {  // first, place, line
    for (int i = 0; i < 3; ++i) lua_rawgeti(a.L, 4, k + i);
    s.origins.push_back(
        {int(lua_tointeger(a.L, -3)), lua_tostring(a.L, -2), int(lua_tointeger(a.L, -1))});
    lua_pop(a.L, 3);
  }
  Userdata<LuaCudaKernel>::push(a.L, std::make_unique<LuaCudaKernel>(std::move(s), a.text(3)));
  return 1;
}

int properties(Args& a) {
  const CudaKernel& k = kernel_at(a);
  lua_newtable(a.L);
  a.set("name", k.name()), a.set("signature", k.text()), a.set("arch", k.arch());
  a.set("cached", k.code().cached), a.set("milliseconds", k.code().milliseconds);
  a.set("log", k.code().log);
  if (const LoadedKernel* loaded = k.loaded()) {
    a.set("max_threads", loaded->max_threads), a.set("registers", loaded->registers);
    a.set("shared", loaded->shared), a.set("local_memory", loaded->local);
  }
  push_list(a.L, k.parameters(), [&](const CudaParameter& p) {
    lua_createtable(a.L, 0, 3);
    a.set("name", p.name), a.set("type", p.type.text);
    if (!p.type.element.empty()) a.set("dtype", p.type.element);
  });
  lua_setfield(a.L, -2, "parameters");
  return 1;
}

int launch(Args& a) {
  CudaKernel& k = kernel_at(a);
  LaunchSize size = launch_size(a);
  size.shared = a.integer(8);
  k.launch(size, launch_arguments(a, 9), [&a](int i) { return describe(a.L, i + 9); });
  return 0;
}

const Entry kCudaKernelParts[] = {
    {"cuda_compile(source, name, device, origins, options, defines)", "A kernel.", compile},
    {"cuda_about(kernel)", "The properties of a kernel.", properties},
    {"cuda_launch(kernel, gx, gy, gz, bx, by, bz, shared, ..)", "Checks and launches.", launch},
    {"cuda_rank(kernel, i, rank)", "How many dimensions a tensor for a parameter has.",
     bind<[](LuaCudaKernel& k, int64_t i, int64_t rank) { k.set_rank(int(i) - 1, int(rank)); }>},
    {"cuda_constant(kernel, name, value)", "Fills a variable of the source.",
     bind<[](LuaCudaKernel& k, const std::string& name, const Tensor& value) {
       k.set_constant(name, value);
     }>},
};

const Entry kCudaKernelFunctions[] = {
    {"cdiv(a, b)",
     "a / b rounded up, for integers a >= 0 and b >= 1: how many blocks of b threads cover a "
     "elements.",
     bind<[](int64_t n, int64_t each) {
       if (n < 0 || each < 1) fail("cdiv: {} / {}; a must be 0 or more, b 1 or more", n, each);
       return n / each + (n % each != 0);
     }>},
};

}  // namespace

void after_call(lua_State* L) {
  if (thread_state.is_worker) return;
  if (gpus_synchronous) return check_gpus();
  GpuCall* const call = capturing ? nullptr : new_gpu_call();
  if (!call) return;
  const char* const name = host.function();
  call->function = name ? name : "mtorch";
  call->where[0] = 0;
  lua_Debug frame;
  for (int level = 1; level < 12 && lua_getstack(L, level, &frame); ++level) {
    lua_getinfo(L, "Sl", &frame);
    if (frame.currentline <= 0 || !library_file(frame).empty()) continue;
    std::snprintf(call->where, sizeof call->where, "%.50s:%d", frame.short_src, frame.currentline);
    return;
  }
}

void register_cuda(Registry& c) { c.methods(kCudaMethods); }

void add_cuda(lua_State* L) { add_internal(L, kCudaFunctions); }

void add_cuda_kernel(lua_State* L) { add_internal(L, kCudaKernelParts); }

void register_cuda_kernel(Registry& c) { c.functions(kCudaKernelFunctions); }

}  // namespace mt::lua
