// grid_kernel.cpp -- launches of grid kernels written in Lua
#include "engine/compiler/kernel/grid_kernel.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "engine/autograd/graph.h"
#include "engine/autograd/inplace.h"
#include "engine/core/device.h"
#include "engine/core/dtype.h"
#include "kernels/cpu/jit/grid_native.h"

namespace mt {
namespace {

using grid::CapturedName;
using grid::CaptureResolver;
using grid::Kernel;

constexpr size_t kMaxVariants = 16;

std::string shown(const int64_t* t) { return fmt::format("({}, {}, {})", t[0], t[1], t[2]); }

/// Throws the fault of a thread; the tensors of the launch are those of the kernel.
void raise(const Kernel& k, const GridFault& fault, const std::vector<GridTensor>& tensors) {
  const size_t t = size_t(fault.tensor);  // 0 if the fault is not an access
  const std::string tensor = t < tensors.size() ? k.tensors[t].name : "";
  const int64_t extent = t < tensors.size() ? tensors[t].size[fault.dim] : 0;
  const std::string where = fmt::format("thread {} of the grid", shown(fault.thread));
  std::string what;
  switch (fault.kind) {
    case GridFaultKind::none: return;
    case GridFaultKind::out_of_bounds:
      what = fmt::format(
          "index {} is out of bounds in dimension {} of '{}', which has the positions 1 to {}, in {}",
          fault.index, fault.dim + 1, tensor, extent, where);
      if (fault.index > extent && std::count(fault.thread, fault.thread + 3, fault.index) > 0)
        what += fmt::format("; threads beyond the end need a guard, if i <= {}.shape[{}]", tensor,
                            fault.dim + 1);
      break;
    case GridFaultKind::division_by_zero:
      what = "a whole number is divided by zero, in " + where;
      each_statement(k.body, 0, [&](const grid::Statement& s, int) {
        if (s.kind == grid::Statement::count && s.line == fault.line && s.step->has<op::Add>())
          what = "a for with a step of 0 never ends, in " + where;  // as infer_types checks it
      });
      break;
    case GridFaultKind::divergent_barrier:
      what = fmt::format("divergent barrier: {} does not reach it, other threads of its block do",
                         where);
      break;
    case GridFaultKind::race:
      what = fmt::format(
          "race: {} {} an element of '{}' that thread {} {}, with no barrier or atomic between",
          where, fault.writes ? "writes" : "reads", tensor, shown(fault.other),
          fault.other_writes ? "wrote" : "read");
      break;
    case GridFaultKind::uninitialised:
      what = fmt::format("uninitialised: {} reads an element of '{}' that no thread has written",
                         where, tensor);
      break;
    case GridFaultKind::no_memory: fail("{}: out of memory", k.name);
  }
  grid::fail_at(k, fault.line, k.name == "kernel" ? what : k.name + ": " + what);
}

CapturedName::Kind kind_of(const KernelArgument& a) {
  if (a.tensor) return CapturedName::tensor;
  if (a.kind == KernelArgument::boolean) return CapturedName::boolean;
  if (a.kind != KernelArgument::number) return CapturedName::nothing;
  return grid::is_whole(a.value) ? CapturedName::whole : CapturedName::real;
}
CapturedName argument_name(const ast::Function& f, const KernelArgument& a, int i,
                           const DescribeArgument& describe) {
  CapturedName o{kind_of(a), i};
  if (a.tensor) o.dtype = a.tensor->dtype(), o.ndim = a.tensor->dim();
  if (o.kind == CapturedName::nothing)
    fail("{}: argument {} '{}' must be a tensor, a number or a boolean, got {}", f.name, i + 1,
         f.variables[size_t(i)], describe(i));
  return o;
}

}  // namespace

/// The kernel for one list of argument types.
struct GridKernel::Variant {
  std::vector<CapturedName> arguments;
  Kernel program;
  Dtype made_for = default_dtype();
  std::shared_ptr<void> compiled;  // for GPUs
  // For the CPU: the kernel with a thread for each iteration of its loop (grid_stride.cpp).
  std::shared_ptr<Variant> divided;
  const grid::Value* iterations = nullptr;  // of the divided program
  bool ran_divided = false;                 // the last launch ran `divided`
  grid::TileProgram unit;
  int axes = -1;  // bits: the axes in which the threads of the unit's tiles differ
  // of the last launch:
  GridWay way = GridWay::lanes;
  int64_t lanes = -1;  // of a tile; 0: on a GPU, -1: no thread ran yet

  Grid launch{};
  LaunchSize size;
  std::vector<GridTensor> views;

  bool fits(CaptureResolver& script, const std::vector<KernelArgument>& given) const {
    if (made_for != default_dtype()) return false;
    for (size_t k = 0; k < given.size(); ++k) {
      const CapturedName& name = arguments[k];
      const Tensor* const t = given[k].tensor;
      if (name.kind != kind_of(given[k])) return false;
      if (t && (name.dtype != t->dtype() || name.ndim != t->dim())) return false;
    }
    for (const auto& [path, captured] : program.captured)
      if (script.resolve(path) != captured) return false;
    for (const auto& [index, value] : program.numbers)
      if (script.number(index) != value) return false;
    return true;
  }
};

GridKernel::GridKernel(bool check, bool lua_numbers, std::vector<grid::Tangent> tangents)
    : check_(check),
      lua_numbers_(lua_numbers),
      tangents_(std::move(tangents)) {}
GridKernel::~GridKernel() = default;
const Kernel& GridKernel::last() const {
  if (variants_.empty()) fail("kernel: it was not launched yet; its types are those of a launch");
  return variants_.front()->program;
}

std::shared_ptr<GridKernel::Variant> GridKernel::variant_for(
    CaptureResolver& script, const std::vector<KernelArgument>& given,
    const DescribeArgument& describe) {
  for (auto& v : variants_)
    if (v->fits(script, given)) {
      std::rotate(variants_.begin(), variants_.begin() + (&v - variants_.data()),
                  variants_.begin() + (&v - variants_.data()) + 1);
      return variants_.front();
    }
  auto v = std::make_shared<Variant>();
  for (size_t k = 0; k < given.size(); ++k)
    v->arguments.push_back(argument_name(script.function(0), given[k], int(k), describe));
  v->program.lua_numbers = lua_numbers_;
  const auto compile = [&](Kernel& k) {
    grid::build(k, script, v->arguments);
    grid::infer_types(k);
    if (!tangents_.empty()) grid::differentiate(k, tangents_);
    grid::expand_formulas(k);
    grid::unroll(k);
  };
  try {
    compile(v->program);
  } catch (...) {
    misfit_ = v->program.misfit;
    throw;
  }
  if (!check_ && grid::shares_iterations(v->program)) {
    v->divided = std::make_shared<Variant>();
    compile(v->divided->program);
    v->divided->iterations = &grid::divide_iterations(v->divided->program);
    grid::find_constraints(v->divided->program);
  }
  grid::find_constraints(v->program);
  if (variants_.size() == kMaxVariants) variants_.pop_back();
  variants_.insert(variants_.begin(), std::move(v));
  return variants_.front();
}

// ---- a launch --------------------------------------------------------------------------------------

/// One launch of a variant.
struct GridKernel::Run {
  CaptureResolver& script;
  std::shared_ptr<Variant> variant;
  const LaunchSize& size;
  const std::vector<KernelArgument>& arguments;
  bool check;
  int64_t threads = 0;  // of the launch, if the iterations of a loop are divided; otherwise 0
  std::vector<mt::Tensor> tensors =
      {};  // of the program, in its order; shared arrays are undefined
  std::vector<GridTensor> views = {};
  Grid launch{};
  GridFault fault{};

  const Kernel& program() const { return variant->program; }

  const Device& collect() {
    size_t next = 0;
    const Device* device = nullptr;
    tensors.reserve(program().tensors.size()), views.reserve(program().tensors.size());
    for (const grid::Tensor& t : program().tensors) {
      mt::Tensor x;
      if (!t.shared && t.captured >= 0) x = script.tensor(t.captured);
      else if (!t.shared) {
        while (!arguments[next].tensor) ++next;
        x = *arguments[next++].tensor;
      }
      tensors.push_back(x);
      views.push_back(t.shared ? shared_view(t) : view_of_tensor(x));
      views.back().stored = t.stored;
      if (t.shared) continue;
      check_tensor(t, x);
      if (device && device != &x.device())
        fail("{}: '{}' is on {}, another tensor on {}; a kernel runs on one device", program().name,
             t.name, x.device().name, device->name);
      device = &x.device();
    }
    return device ? *device : cpu_device();
  }
  void check_tensor(const grid::Tensor& t, const mt::Tensor& x) const {
    if (wants_grad(x))
      fail(
          "{}: '{}' requires a gradient, which a grid kernel does not have; call it inside mt.no_grad(fn), or wrap it "
          "in mt.Function",
          program().name, t.name);
    if (t.stored) check_writable(program().name.c_str(), x);
    if (t.constant && t.stored)
      fail("{}: the kernel writes to '{}', which it asks for as constant('{}')", program().name,
           t.name, t.name);
    if (t.constant && x.numel() * item_size(x.dtype()) > (64 << 10))
      fail("{}: constant('{}') has {} bytes; constant memory holds 65536", program().name, t.name,
           x.numel() * item_size(x.dtype()));
  }
  static GridTensor view_of_tensor(const mt::Tensor& x) {
    GridTensor v{};
    v.data = x.data(), v.dtype = x.dtype(), v.ndim = x.dim();
    for (int d = 0; d < v.ndim; ++d) v.size[d] = x.size(d), v.stride[d] = x.stride(d);
    return v;
  }
  GridTensor shared_view(const grid::Tensor& t) const {
    GridTensor v{};
    v.dtype = t.dtype, v.shared = true, v.is_private = t.is_private, v.ndim = t.ndim;
    int64_t stride = 1;
    for (int k = 0; t.is_private && k < 3; stride *= size.block[k++])
      v.size[v.ndim] = size.block[k], v.stride[v.ndim++] = stride;
    for (int d = t.ndim - 1; d >= 0; --d)
      v.size[d] = t.size[d], v.stride[d] = stride, stride *= t.size[d];
    return v;
  }

  /// Splits the grid into tiles, and chooses the axis along which lanes are numbered first.
  void choose_tiles() {
    for (int d = 0; d < 3; ++d) launch.total[d] = size.grid[d] * size.block[d], launch.axes[d] = d;
    if (!program().by_thread) {
      double score[3];
      for (int d = 0; d < 3; ++d)
        score[d] = launch.total[d] > 1 ? grid::axis_score(program(), d, views) : -INFINITY;
      std::stable_sort(launch.axes, launch.axes + 3,
                       [&](int a, int b) { return score[a] > score[b]; });
    }
    int64_t room = kLanes;
    for (const int d : launch.axes) {
      if (program().in_blocks || check) {
        launch.tile[d] = size.block[d];
        continue;
      }
      const int64_t total = launch.total[d], parts = (total + room - 1) / room;
      launch.tile[d] = (total + parts - 1) / parts;
      const int64_t enough = program().loops ? kLanes : kRow;
      room = launch.tile[d] >= enough || parts > 1 ? 1 : room / launch.tile[d];
    }
  }
  static constexpr int64_t kLanes = kGridLanes;
  static constexpr int64_t kRow = 32;  // lanes that are enough for a tile, without loops

  /// Whether the variant's last launch had the same sizes and layouts, so that its tiles can be used again.
  bool repeats_last_launch() const {
    const LaunchSize& last = variant->size;
    if (!variant->launch.program || !std::equal(size.grid, size.grid + 3, last.grid) ||
        !std::equal(size.block, size.block + 3, last.block))
      return false;
    for (size_t k = 0; k < views.size(); ++k) {
      const GridTensor &a = views[k], &b = variant->views[k];  // the variant determines ndim
      if (!std::equal(a.size, a.size + a.ndim, b.size) ||
          !std::equal(a.stride, a.stride + a.ndim, b.stride))
        return false;
    }
    return true;
  }
  /// Chooses the tiles, and assigns registers if the axes along which their threads differ have changed.
  void plan_tiles() {
    choose_tiles();
    bool varying[3];
    for (int d = 0; d < 3; ++d) varying[d] = launch.tile[d] > 1;
    grid::TileProgram& unit = variant->unit;
    const int axes = varying[0] | varying[1] << 1 | varying[2] << 2;
    if (axes != variant->axes) grid::assign_registers(variant->program, unit, varying);
    variant->axes = axes;
    launch.program = &unit.program;
    launch.check = check, launch.way = &variant->way;
    const int64_t cells = launch.total[0] * launch.total[1] * launch.total[2];
    launch.spread = double(cells) * unit.program.work > 200000;
    variant->launch = launch, variant->size = size, variant->views = views;
  }
  void prepare() {
    if (repeats_last_launch()) launch = variant->launch;
    else plan_tiles();
    variant->lanes = launch.tile[0] * launch.tile[1] * launch.tile[2];
    launch.fault = &fault, launch.tensors = views.data();
    std::vector<GridScalar>& scalars = variant->unit.scalars;
    fill_scalars(scalars.data() + kGridNumbers);
    launch.scalars = scalars.data();
  }

  void fill_scalars(GridScalar* out) const {
    for (size_t k = 0; k < program().scalars.size(); ++k) {
      const grid::LaunchScalar& s = program().scalars[k];
      GridScalar& to = out[k];
      double value = 0;
      switch (s.kind) {
        case grid::LaunchScalar::argument: value = arguments[size_t(s.index)].value; break;
        case grid::LaunchScalar::captured: value = script.number(s.index); break;
        case grid::LaunchScalar::size: to.whole = views[size_t(s.index)].size[s.dim]; continue;
        case grid::LaunchScalar::block_dim: to.whole = size.block[s.dim]; continue;
        case grid::LaunchScalar::grid_dim: to.whole = size.grid[s.dim]; continue;
      }
      to = grid::scalar_of(value, s.type, program().real);
    }
  }

  /// The number of threads if each runs one iteration of the kernel's loop; 0: the kernel runs as it was written.
  int64_t iterations() const {
    const LaunchSize& s = size;
    if (s.grid[1] * s.grid[2] * s.block[1] * s.block[2] != 1 || !grid::are_apart(views)) return 0;
    const grid::Value& n = *variant->divided->iterations;
    if (n.kind == grid::Value::number) return int64_t(n.value);
    std::vector<GridScalar> scalars(program().scalars.size());
    fill_scalars(scalars.data());
    return scalars[size_t(n.index)].whole;
  }
  void dispatch(const Device& device) {
    if (is_cpu(device)) run_on_cpu(device);
    else if (check) check_on_cpu(device);
    else queue_on_gpu(device), variant->lanes = 0;
  }
  /// Only the CPU checks for races: it runs the kernel on copies of a GPU's tensors.
  void check_on_cpu(const Device& device) {
    std::map<const Storage*, std::vector<std::byte>> copies;
    for (size_t k = 0; k < tensors.size(); ++k) {
      if (!tensors[k].defined()) continue;
      const Storage* const s = tensors[k].impl()->storage;
      std::vector<std::byte>& bytes = copies[s];
      if (bytes.empty()) {
        bytes.resize(s->bytes);
        device.download(bytes.data(), s->data, s->bytes);
      }
      views[k].data = bytes.data() +
                      (static_cast<std::byte*>(views[k].data) - static_cast<std::byte*>(s->data));
    }
    run_on_cpu(cpu_device());
    for (size_t k = 0; k < tensors.size(); ++k) {
      if (!tensors[k].defined() || !program().tensors[k].stored) continue;
      const Storage* const s = tensors[k].impl()->storage;
      device.upload(s->data, copies[s].data(), s->bytes);
    }
  }
  void count_changes() const {
    for (size_t k = 0; k < tensors.size(); ++k)
      if (program().tensors[k].stored && !program().tensors[k].shared) bump(tensors[k]);
  }
  void run_on_cpu(const Device& device) {
    prepare();
    device.launch_grid(launch);
    count_changes();
    check_interrupt();
    if (threads > 0) fault.thread[0] = (fault.thread[0] - 1) % threads + 1;
    if (fault.kind != GridFaultKind::none) raise(program(), fault, views);
  }
  void queue_on_gpu(const Device& device) {
    std::vector<GridScalar> scalars(program().scalars.size());
    fill_scalars(scalars.data());
    const auto kept = variant;
    launch_grid_cuda({program(), size, tensors, views, scalars, variant->compiled,
                      [kept, v = views](const GridFault& f) { raise(kept->program, f, v); }},
                     device);
    count_changes();
  }
};

namespace {

/// check_launch does not limit the number of threads, which must be exact in a double.
void check_count(const std::string& name, const LaunchSize& s) {
  double all = 1;
  for (int d = 0; d < 3; ++d) all *= double(s.grid[d]) * double(s.block[d]);
  if (all > 9e15) fail("{}: {:.3g} threads in the grid; at most 9e15", name, all);
}

}  // namespace

std::string GridKernel::path() const {
  last();  // raises an error if there was no launch
  const Variant& front = *variants_.front();
  const Variant& v = front.ran_divided ? *front.divided : front;
  if (check_) return "the interpreter, because of check=true";
  if (v.lanes < 0) return "nothing, because it failed or had no threads";
  if (v.lanes == 0) return "a GPU";
  if (v.way == GridWay::threads) return "scalar machine code, thread after thread";
  if (v.way == GridWay::vectors)
    return "machine code, with vectors of neighbouring threads between barriers";
  if (v.way == GridWay::rows) return "machine code, with vectors of the threads along a row";
  std::string text = fmt::format("vectors of up to {} threads, which run in lockstep", v.lanes);
  int native = 0;
  std::string others;
  each_statement(v.program.body, 0, [&](const grid::Statement& s, int) {
    if (!s.is_loop()) return;
    if (grid_native(v.unit.program, s, ~uint64_t(0)).code) ++native;
    else others += fmt::format("{}{}", others.empty() ? "" : ", ", s.line & 0xfffff);
  });
  text += native > 0 ? fmt::format("; {} of its loops as machine code", native)
                     : "; the interpreter computes one operation after the other";
  if (!others.empty())
    text += fmt::format("; the loops of these lines are interpreted: {}", others);
  const char* why = nullptr;
  each_statement(v.program.body, 0, [&](const grid::Statement& s, int) {
    if (s.kind == grid::Statement::warp || s.kind == grid::Statement::print)
      why = "warp functions or print";
  });
  return text + (why ? fmt::format("; no scalar machine code, because of {}", why) : "");
}

void GridKernel::launch(CaptureResolver& script, const LaunchSize& size,
                        const std::vector<KernelArgument>& arguments,
                        const DescribeArgument& describe) {
  const ast::Function& f = script.function(0);
  check_launch(f.name, size);
  check_count(f.name, size);
  if (int(arguments.size()) != f.parameters) {
    std::string list;
    for (int k = 0; k < f.parameters; ++k) list += (k ? ", " : "") + f.variables[size_t(k)];
    fail("{}: {} argument{} given, it takes {}: {}({})", f.name, arguments.size(),
         arguments.size() == 1 ? "" : "s", f.parameters, f.name, list);
  }
  const std::shared_ptr<Variant> v = variant_for(script, arguments, describe);
  Run run{script, v, size, arguments, check_};
  const Device& device = run.collect();
  int64_t bytes[2] = {};  // of shared and of private memory
  for (const grid::Tensor& t : v->program.tensors) {
    if (!t.shared) continue;
    int64_t& sum = bytes[t.is_private];
    sum += t.size[0] * t.size[1] * t.size[2] * item_size(t.dtype);
    if (const int64_t most = t.is_private ? kGridPrivate : kGridShared; sum > most)
      grid::fail_line(v->program, t.line, "{} bytes of {} memory; a {} has at most {}", sum,
                      t.is_private ? "private" : "shared", t.is_private ? "thread" : "block", most);
  }
  if (size.grid[0] * size.grid[1] * size.grid[2] == 0) return;
  const bool divides = v->divided && !check_ && is_cpu(device);
  const int64_t iterations = divides ? run.iterations() : 0;
  v->ran_divided = iterations > 0;
  if (iterations <= 0) return run.dispatch(device);
  LaunchSize each = size;
  each.grid[0] = (iterations + size.block[0] - 1) / size.block[0];
  Run divided{script, v->divided, each, arguments, check_, size.grid[0] * size.block[0]};
  divided.tensors = std::move(run.tensors), divided.views = std::move(run.views);
  divided.dispatch(device);
}

}  // namespace mt
