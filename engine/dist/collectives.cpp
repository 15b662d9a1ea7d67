// collectives.cpp -- operations of a group on tensors, by MPI or NCCL; messages between two processes
#include <algorithm>
#include <map>

#include "engine/autograd/function.h"
#include "engine/core/device.h"
#include "engine/core/exchange.h"
#include "engine/dist/agreement.h"
#include "engine/ops/ops.h"

namespace mt::dist {
namespace {

// All processes have agreed on the call before data is sent: blocking MPI calls are 1.7 to 2.5
// times as fast as those that can be abandoned.

/// Calls part(first, count) for pieces of 4 MB or so, which Open MPI transfers twice as fast as 64 MB at once.
constexpr int64_t kMaxCount = int64_t(1) << 20;
void in_parts(int64_t count, const std::function<void(int64_t, int)>& part) {
  for (int64_t at = 0; at < count; at += kMaxCount) part(at, int(std::min(kMaxCount, count - at)));
}

constexpr const char* kOps[] = {"ompi_mpi_op_sum", "ompi_mpi_op_sum", "ompi_mpi_op_max",
                                "ompi_mpi_op_min"};
constexpr Collective::Op kGpuOps[] = {Collective::Op::sum, Collective::Op::sum, Collective::Op::max,
                                      Collective::Op::min};
using Kind = Collective::Kind;

/// Where the agreed call needs its data.
const Device& place(const Group& group) { return group.gpu ? *group.gpu : cpu_device(); }
bool on_gpu(const Tensor& x) { return !is_cpu(x.device()); }

/// The reduction of the parts of a packed tensor of a GPU, without the division of a mean.
Collective scatter_of(const Tensor& part, const Tensor& x, Reduction how) {
  return {Kind::reduce_scatter, x.data_as<void>(), part.data_as<void>(), part.numel(), 0, x.dtype(),
          kGpuOps[int(how)]};
}
/// The elements in order, on the device, as rows.
Tensor packed(const Tensor& x, int64_t rows, const Device& device) {
  return reshape(contiguous(to(x, device)), {rows, x.numel() / rows});
}
Tensor rows_of(const Tensor& x, int64_t rows, int64_t columns) {
  return empty({rows, columns}, x.dtype(), x.device());
}

using Blocks = std::function<int(const void* from, void* to, int count)>;
/// Calls f for parts of the columns of two packed tensors, whose rows are the blocks that processes exchange.
void by_columns(const char* operation, const Tensor& from, const Tensor& to, const Blocks& f) {
  const int64_t columns = from.shape()[1];
  if (columns <= kMaxCount) {
    check(operation, f(from.data_as<const void>(), to.data_as<void>(), int(columns)));
    return;
  }
  in_parts(columns, [&](int64_t at, int n) {
    const Tensor part = contiguous(slice(from, 1, at, n)), got = rows_of(to, to.shape()[0], n);
    check(operation, f(part.data_as<const void>(), got.data_as<void>(), n));
    copy_(slice(to, 1, at, n), got);
  });
}
/// The processes exchange the rows of two packed tensors.
void exchange(const char* operation, Kind kind, const Tensor& from, const Tensor& to,
              const Group& group, int root = 0) {
  const int64_t bytes = item_size(from.dtype());
  if (on_gpu(from))
    return run_on_gpus(
        operation, {kind, from.data_as<void>(), to.data_as<void>(), from.shape()[1] * bytes, root},
        group);
  const Object byte = datatype(Dtype::u8);
  by_columns(operation, from, to, [&](const void* a, void* b, int n) {
    n *= int(bytes);
    const auto call = [&](const auto& f, auto... root) {
      return f(a, n, byte, b, n, byte, root..., group.communicator);
    };
    return kind == Kind::all_gather   ? call(mpi().all_gather)
           : kind == Kind::all_to_all ? call(mpi().all_to_all)
           : kind == Kind::gather     ? call(mpi().gather, root)
                                      : call(mpi().scatter, root);
  });
}

/// Each row as a tensor like x.
TensorList unpacked(const Tensor& rows, const Tensor& x) {
  TensorList list;
  for (int64_t i = 0; i < rows.shape()[0]; ++i)
    list.push_back(to(reshape(clone(slice(rows, 0, i, 1)), x.shape()), x.device()));
  return list;
}

/// The processes agree on a call with these tensors: "broadcast_(0) of float32 (2 x 3)".
void agree_on(const char* name, const std::string& option, const TensorList& list,
              const Group& group) {
  agree(name, group, fmt::format("{}{} of {}", name, option, described(list)),
        gpu_for(list, group));
}
std::string in_brackets(const auto& x) { return fmt::format("({})", x); }

/// The x of all processes; where the kind has a root, the others get none.
TensorList gathered(const char* name, const std::string& option, Kind kind, const Tensor& x,
                    int64_t count, const Group& group, int root = 0) {
  const NoGrad off;
  if (size(group) == 1) return {clone(x)};
  agree_on(name, option, {x}, group);
  const Tensor from = packed(x, 1, place(group)), rows = rows_of(from, count, from.shape()[1]);
  exchange(name, kind, from, rows, group, root);
  return unpacked(rows, x);
}

/// The elements of `out`, in order, become those of the processes' x; the data is exchanged on `device`.
void gather_into(const char* operation, const Tensor& out, const Tensor& x, const Group& group,
                 const Device& device) {
  const Tensor from = packed(x, 1, device);
  const bool direct = out.is_contiguous() && &out.device() == &device;
  const Tensor rows = direct ? view_of(out, {size(group), x.numel()}, {x.numel(), 1}, out.offset())
                             : rows_of(from, size(group), x.numel());
  exchange(operation, Kind::all_gather, from, rows, group);
  if (!direct) copy_(out, reshape(rows, out.shape()));
}

/// `out` becomes the reduction of the processes' parts of x for this one; the data is exchanged on `device`.
void scatter_into(const char* operation, const Tensor& out, const Tensor& x, Reduction how,
                  const Group& group, const Device& device) {
  const Tensor from = to(packed(x, size(group), device), wire(x.dtype(), group));
  const Tensor part = rows_of(from, 1, from.shape()[1]);
  const Object op = mpi().object(kOps[int(how)]);
  if (on_gpu(from)) run_on_gpus(operation, scatter_of(part, from, how), group);
  else
    by_columns(operation, from, part, [&](const void* a, void* b, int n) {
      return mpi().reduce_scatter(a, b, n, datatype(from.dtype()), op, group.communicator);
    });
  if (how == Reduction::mean) divide(part, group);
  copy_(out, reshape(part, out.shape()));
}

/// Calls f with the tensors of each dtype, which it changes, when the processes have agreed.
void run_by_dtype(const char* name, const std::string& option, const TensorList& list,
                  const Group& group, const std::function<void(const TensorList&)>& f) {
  for (const Tensor& x : list) check_writable(name, x);
  if (size(group) == 1) return;
  run_exchange({list, list, [=, &group](const TensorList&, const TensorList& list) {
                  agree_on(name, option, list, group);
                  for (int d = 0; d < kDtypes; ++d) {
                    TensorList subset;
                    for (const Tensor& x : list)
                      if (x.dtype() == Dtype(d)) subset.push_back(x);
                    if (!subset.empty()) f(subset);
                  }
                }});
}

/// Calls f(out, x), which fills `out`, when the processes have agreed; a single one copies x.
void run_parts(const char* name, const std::string& option, const Tensor& out, const Tensor& x,
               const Group& group, const std::function<void(const Tensor&, const Tensor&)>& f) {
  check_writable(name, out);
  if (size(group) == 1) return void(copy_(out, reshape(x, out.shape())));
  run_exchange({{x}, {out}, [=, &group](const TensorList& in, const TensorList& to_fill) {
                  agree_on(name, option, {in[0], to_fill[0]}, group);
                  f(to_fill[0], in[0]);
                }});
}

void check_reduction(const char* operation, const Tensor& x, Reduction how) {
  if (how == Reduction::mean && !is_float(x.dtype()))
    fail("{}: the mean of {} is not an integer; use op='sum', or x:float()", operation, x.dtype());
  if (how == Reduction::sum && x.dtype() == Dtype::b8)
    fail("{}: bool has no sum; use op='max' for any, op='min' for all, or x:int()", operation);
}

int root_of(const char* operation, int64_t root, const Group& group) {
  if (root < 0 || root >= size())
    fail("{}: root is {}; the processes are 0 to {}", operation, root, size() - 1);
  if (group.position(root) < 0)
    fail("{}: root {} is not in the group {}", operation, root, group.shown());
  return group.position(root);
}

/// Throws Error unless `whole` has the dtype of `part` and n times as many elements.
void check_parts(const char* operation, const Tensor& whole, const Tensor& part,
                 const Group& group) {
  if (whole.dtype() != part.dtype() || whole.numel() != part.numel() * size(group))
    fail("{}: {} is not {} times {}, one part for each process", operation, described({whole}),
         size(group), described({part}));
}

/// Why a list has not one tensor for each process, all of one shape and dtype; or nothing.
std::string fault_of(const TensorList& list, const Group& group) {
  if (int(list.size()) != size(group))
    return fmt::format(": {} tensors for {} processes", list.size(), size(group));
  for (const Tensor& x : list)
    if (x.dtype() != list[0].dtype() || x.shape() != list[0].shape())
      return ": the tensors must have one shape and dtype, got " + described(list);
  return "";
}

}  // namespace

void divide(const Tensor& sum, const Group& group) { sum /= scalar(size(group), sum.dtype()); }
Collective reduction_of(const Tensor& data, Reduction how) {
  void* const all = data.data_as<void>();
  return {Kind::all_reduce, all, all, data.numel(), 0, data.dtype(), kGpuOps[int(how)]};
}

std::string described(const TensorList& list) {
  std::string text;
  for (const Tensor& x : list)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", x.dtype(), x.shape());
  return text;
}

Buffer::Buffer(const TensorList& list, const Group& group, Dtype d, bool may_share) {
  const Tensor& x = list[0];
  shared = may_share && list.size() == 1 && &x.device() == &place(group) && x.is_contiguous() &&
           x.dtype() == d;
  int64_t n = 0;
  for (const Tensor& x : list) n += x.numel();
  data = shared ? view_of(x, {n}, {1}, x.offset()) : empty({n}, d, place(group));
  if (!shared) each(list, [](const Tensor& x, const Tensor& part) { copy_(part, x); });
}
void Buffer::each(const TensorList& list,
                  const std::function<void(const Tensor&, const Tensor&)>& f) const {
  int64_t at = 0;
  for (const Tensor& x : list) {
    f(x, reshape(view_of(data, {x.numel()}, {1}, at), x.shape()));
    at += x.numel();
  }
}
void Buffer::copy_to(const TensorList& list) const {
  if (!shared) each(list, [](const Tensor& x, const Tensor& part) { copy_(x, part); });
}

void reduce_buffer(const char* operation, const Tensor& data, Reduction how, const Group& group) {
  const Dtype d = data.dtype();
  if (on_gpu(data)) run_on_gpus(operation, reduction_of(data, how), group);
  else
    in_parts(data.numel(), [&](int64_t at, int n) {
      check(operation,
            mpi().all_reduce(kInPlace, data.data_as<char>() + at * item_size(d), n, datatype(d),
                             mpi().object(kOps[int(how)]), group.communicator));
    });
  if (how == Reduction::mean) divide(data, group);
}

void sum_in_bfloat16(const char* operation, const Tensor& data, const Group& group) {
  const int64_t n = size(group), columns = (data.numel() + n - 1) / n;
  const Tensor sent = zeros({n, columns}, Dtype::bf16, data.device()),
               got = rows_of(sent, n, columns);
  const auto elements = [&](const Tensor& x) {
    return slice(reshape(x, {n * columns}), 0, 0, data.numel());
  };
  copy_(elements(sent), data);
  exchange(operation, Kind::all_to_all, sent, got, group);
  Tensor sum = to(slice(got, 0, 0, 1), Dtype::f32);
  for (int64_t i = 1; i < n; ++i) sum += to(slice(got, 0, i, 1), Dtype::f32);
  exchange(operation, Kind::all_gather, to(sum, Dtype::bf16), got, group);
  copy_(data, elements(got));
}

void all_reduce_(const TensorList& list, Reduction how, const Group& group) {
  static constexpr const char* kName = "all_reduce_";
  const NoGrad off;
  for (const Tensor& x : list) check_reduction(kName, x, how);
  const auto run = [how, &group](const TensorList& subset) {
    const Buffer buffer(subset, group, wire(subset[0].dtype(), group));
    reduce_buffer(kName, buffer.data, how, group);
    buffer.copy_to(subset);
  };
  run_by_dtype(kName, in_brackets(names_of(how)[int(how)]), list, group, run);
}

void reduce_scatter_(const Tensor& out, const Tensor& x, Reduction how, const Group& group) {
  static constexpr const char* kName = "reduce_scatter_";
  const NoGrad off;
  check_reduction(kName, x, how);
  check_parts(kName, x, out, group);
  const auto run = [how, &group](const Tensor& out, const Tensor& x) {
    scatter_into(kName, out, x, how, group, place(group));
  };
  run_parts(kName, in_brackets(names_of(how)[int(how)]), out, x, group, run);
}

void broadcast_(const TensorList& list, int64_t root, const Group& group) {
  static constexpr const char* kName = "broadcast_";
  const int position = root_of(kName, root, group);
  const NoGrad off;
  const auto run = [root, position, &group](const TensorList& subset) {
    const Buffer buffer(subset, group, subset[0].dtype());
    const int64_t bytes = buffer.data.numel() * item_size(subset[0].dtype());
    char* const all = buffer.data.data_as<char>();
    if (group.gpu) run_on_gpus(kName, {Kind::broadcast, all, all, bytes, position}, group);
    else
      in_parts(bytes, [&](int64_t at, int n) {
        check(kName,
              mpi().broadcast(all + at, n, datatype(Dtype::u8), position, group.communicator));
      });
    if (rank() != root) buffer.copy_to(subset);
  };
  run_by_dtype(kName, in_brackets(root), list, group, run);
}

TensorList all_gather(const Tensor& x, const Group& group) {
  return gathered("all_gather", "", Kind::all_gather, x, size(group), group);
}
TensorList gather(const Tensor& x, int64_t root, const Group& group) {
  const int position = root_of("gather", root, group);
  const int64_t count = rank() == root ? size(group) : 0;
  return gathered("gather", in_brackets(root), Kind::gather, x, count, group, position);
}

void all_gather_into_(const Tensor& out, const Tensor& x, const Group& group) {
  static constexpr const char* kName = "all_gather_into_";
  const NoGrad off;
  check_parts(kName, out, x, group);
  run_parts(kName, "", out, x, group, [&group](const Tensor& out, const Tensor& x) {
    gather_into(kName, out, x, group, place(group));
  });
}

PendingExchange::PendingExchange(Kind kind, const TensorList& out, const TensorList& x,
                                 const Group& group)
    : kind_(kind),
      from_(kind == gather ? x : TensorList()),
      to_(out),
      versions_(versions_of(from_)),
      group_(group) {
  const NoGrad off;
  const char* const name = this->name();
  if (out.size() != x.size()) fail("{}: {} tensors for {}", name, out.size(), x.size());
  TensorList all = x;
  for (size_t i = 0; i < x.size(); ++i) {
    if (kind == gather) check_parts(name, out[i], x[i], group);
    else check_parts(name, x[i], out[i], group);
    if (!x[i].is_contiguous() || !out[i].is_contiguous()) fail("{}: a tensor has gaps", name);
    all.push_back(out[i]);
  }
  const auto run = [name, kind, out, x, &group](const Device& device) {
    for (size_t i = 0; i < x.size(); ++i)
      if (kind == gather) gather_into(name, out[i], x[i], group, device);
      else scatter_into(name, out[i], x[i], Reduction::mean, group, device);
  };
  const std::string call = fmt::format("{} of {}", name, described(x));
  if (size(group) == 1) {
    for (size_t i = 0; i < x.size(); ++i) copy_(out[i], reshape(x[i], out[i].shape()));
  } else if (std::ranges::none_of(all, on_gpu)) {
    check_caller(name);
    job_ = start_in_background([name, call, run, &group] {
      const NoGrad off;
      agree(name, group, call);
      run(cpu_device());
    });
    if (job_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) sent_ = x;
  } else {
    agree(name, group, call, gpu_for(all, group));
    if (group.gpu && !capturing) start_on_gpus(x);
    else run(place(group));
  }
}
void PendingExchange::start_on_gpus(const TensorList& x) {
  for (size_t i = 0; i < x.size(); ++i) {
    const Dtype d = kind_ == gather ? x[i].dtype() : wire(x[i].dtype(), group_);
    const Tensor from = to(x[i], d), &out = to_[i],
                 part = d == out.dtype() ? out : empty(out.shape(), d, out.device());
    sent_.push_back(from), received_.push_back(part);
    const Collective all_gather{Collective::Kind::all_gather, from.data_as<void>(),
                                part.data_as<void>(), from.numel() * item_size(d)};
    const uint64_t number = dist::start_on_gpus(
        name(), kind_ == gather ? all_gather : scatter_of(part, from, Reduction::mean), group_);
    on_gpus_ = std::max(on_gpus_, number);  // 0 for no elements
  }
}
PendingExchange::~PendingExchange() { finish_on_gpus(group_, on_gpus_); }
bool PendingExchange::wait() {
  const NoGrad off;
  if (const uint64_t last = std::exchange(on_gpus_, 0)) {
    finish_on_gpus(group_, last);
    for (size_t i = 0; i < to_.size() && kind_ == scatter; ++i) {
      divide(received_[i], group_);
      if (to_[i].dtype() != received_[i].dtype()) copy_(to_[i], received_[i]);
    }
  }
  wait_for_job(name(), std::exchange(job_, {}));
  sent_.clear(), received_.clear();
  if (!to_.empty()) out_versions_ = versions_of(std::exchange(to_, {}));
  return versions_of(from_) == versions_;
}
bool PendingExchange::is_current(const TensorList& out) const {
  return versions_of(out) == out_versions_;
}

TensorList whole_parameters(const TensorList& parts, const TensorList& gathered,
                            const Group& group) {
  std::vector<bool> is_frozen;
  for (const Tensor& p : parts) is_frozen.push_back(!p.requires_grad());
  const auto backward = [parts, &group](const TensorList& gradients) {
    if (grad_enabled()) fail("dist.shard: gradients of parameters have no second derivatives");
    TensorList whole, mine;
    std::vector<size_t> of;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (!gradients[i].defined() || !wants_gradient(i)) continue;
      const Tensor &p = parts[i], &g = gradients[i];
      const int64_t most = p.numel() * size(group), n = g.numel();
      const Tensor flat = reshape(contiguous(to(g, p.dtype())), {n});
      whole.push_back(n < most ? pad(flat, {0, most - n}) : flat);
      mine.push_back(empty(p.shape(), p.dtype(), p.device()));
      of.push_back(i);
    }
    if (of.empty()) return TensorList(parts.size());
    static auto& last = *new std::weak_ptr<PendingExchange>;
    if (const auto before = last.lock()) before->wait();
    const auto pending =
        std::make_shared<PendingExchange>(PendingExchange::scatter, mine, whole, group);
    last = pending;
    for (size_t k = 0; k < of.size(); ++k)
      defer_gradient(of[k], [pending, part = mine[k]]() mutable {
        pending->wait();
        return std::move(part);
      });
    return TensorList(parts.size());
  };
  return record_function("dist.shard", parts, gathered, is_frozen, {}, backward, false);
}

Tensor scatter(const TensorList& list, int64_t root, const Group& group) {
  constexpr const char* kName = "scatter";
  const int position = root_of(kName, root, group);
  const bool is_root = rank() == root;
  const NoGrad off;
  std::string fault;
  int64_t form[kMaxDims + 2] =
      {};  // the dtype, the number of dimensions and the sizes, which only the root knows
  if (is_root) {
    fault = fault_of(list, group);
    if (fault.empty()) {
      form[0] = int(list[0].dtype()), form[1] = list[0].dim();
      std::ranges::copy(list[0].shape(), form + 2);
    }
  }
  const Device& device = is_root && fault.empty() ? list[0].device() : default_device();
  if (size(group) > 1)
    agree(kName, group, fmt::format("{}({}){}", kName, root, fault), gpu_for(device, group));
  if (!fault.empty()) fail("{}{}", kName, fault);
  if (size(group) == 1) return clone(list[0]);
  check(kName,
        mpi().broadcast(form, kMaxDims + 2, datatype(Dtype::i64), position, group.communicator));
  Shape shape;
  for (int64_t i = 0; i < form[1]; ++i) shape.push(form[2 + i]);
  const Tensor x = is_root ? list[0] : empty(shape, Dtype(form[0]), device);
  const Tensor part = empty({1, x.numel()}, x.dtype(), place(group));
  const Tensor rows =
      is_root ? packed(stack(list), size(group), place(group)) : rows_of(part, 0, x.numel());
  exchange(kName, Kind::scatter, rows, part, group, position);
  return unpacked(part, x)[0];
}

TensorList all_to_all(const TensorList& list, const Group& group) {
  constexpr const char* kName = "all_to_all";
  const NoGrad off;
  if (const std::string fault = fault_of(list, group); !fault.empty()) fail("{}{}", kName, fault);
  const Tensor all = stack(list);
  if (size(group) == 1) return {clone(list[0])};
  agree(kName, group, fmt::format("{} of {}", kName, described(list)), gpu_for({all}, group));
  const Tensor rows = packed(all, size(group), place(group)),
               got = rows_of(rows, size(group), rows.shape()[1]);
  exchange(kName, Kind::all_to_all, rows, got, group);
  return unpacked(got, list[0]);
}

void barrier(const Group& group) {
  if (size(group) == 1) return;
  run_exchange({{}, {}, [&group](const TensorList&, const TensorList&) {
                  agree("barrier", group, "barrier()");
                }});
}

// ---- messages between two processes --------------------------------------------------------------

namespace {

/// This process and another one as a group, which both connect when they first exchange GPU tensors.
Group& pair_with(int other) {
  static auto& pairs = *new std::map<int, Group>;
  Group& pair = pairs[other];
  pair.ranks = {std::min(rank(), other), std::max(rank(), other)};
  pair.id = (int64_t(1) << 20) + pair.ranks[1];
  return pair;
}

/// Both processes say what they send or receive, compare it, and only then send data.
struct Message {
  const char* name;
  const Tensor& x;
  int other;
  int said, data;  // tags of MPI
  std::string call;
  Group* pair = nullptr;
  const Gpu* gpu = nullptr;  // if both processes can use it, `linked`

  Message(const char* name, const Tensor& x, int64_t process, int64_t tag)
      : name(name),
        x(x),
        other(int(process)),
        said(int(2 + 2 * tag)),
        data(said + 1) {
    if (process < 0 || process >= size() || process == rank())
      fail("{}: process {}; this is {}, and the others are 0 to {}", name, process, rank(),
           size() - 1);
    wait_for_background(name);
    call = fmt::format("{} of {}, process {}, tag {}", name, described({x}), process, tag);
    pair = &pair_with(other);
    gpu = gpu_for(x.device(), *pair);
  }
  void say(int tag) const {
    static auto& text = *new std::string;  // MPI may read it after the wait was abandoned
    Mpi::Request request;
    text = (gpu ? "g" : "c") + described({x});
    check(name, mpi().send(text.data(), int(text.size()), datatype(Dtype::u8), other, tag,
                           mpi().world, &request));
  }
  /// Waits for the other's text; throws Error if it differs.
  void hear(int tag) {
    Mpi::Status status{};
    wait_for(name, call, other, [&] {
      int there = 0;
      check(name, mpi().probe(other, tag, mpi().world, &there, &status));
      return there != 0;
    });
    std::string text(status.count, ' ');
    check(name, mpi().receive(text.data(), int(text.size()), datatype(Dtype::u8), other, tag,
                              mpi().world, &status));
    if (tag == said) say(data);
    if (text.substr(1) != described({x}))
      fail("{}: process {} calls {}, but process {} has {}", name, rank(), call, other,
           text.substr(1));
    if (text[0] != 'g') gpu = nullptr;
  }
  /// After both have heard: whether the data goes from GPU to GPU.
  bool linked() const {
    if (!gpu) return false;
    if (!pair->communicator) {
      Object everyone = nullptr, two = nullptr;
      check(name, mpi().group_of(mpi().world, &everyone));
      check(name, mpi().include(everyone, 2, pair->ranks.data(), &two));
      check(name, mpi().create_group(mpi().world, two, said, &pair->communicator));
    }
    return connect(name, *gpu, *pair);
  }
  void transfer(Kind kind, const Tensor& elements) const {
    void* const all = elements.data_as<void>();
    run_on_gpus(name,
                {kind, all, all, elements.numel() * item_size(x.dtype()), pair->position(other)},
                *pair);
  }
  /// Calls f(first byte, number, type, tag) for the elements of a packed tensor.
  void transfer(const Tensor& elements, auto f) const {
    in_parts(elements.numel() * item_size(x.dtype()), [&](int64_t at, int n) {
      check(name, f(elements.data_as<char>() + at, n, datatype(Dtype::u8), data));
    });
  }
};

}  // namespace

void send(const Tensor& x, int64_t to, int64_t tag) {
  const NoGrad off;
  Message message("send", x, to, tag);
  message.say(message.said);
  message.hear(message.data);
  if (message.linked()) return message.transfer(Kind::send, packed(x, 1, x.device()));
  message.transfer(packed(x, 1, cpu_device()), [&](const char* from, int n, Object type, int tag) {
    return mpi().send_now(from, n, type, message.other, tag, mpi().world);
  });
}

void recv(const Tensor& x, int64_t from, int64_t tag) {
  const NoGrad off;
  check_writable("recv", x);
  Message message("recv", x, from, tag);
  message.hear(message.said);
  const bool linked = message.linked();
  const Tensor elements = empty({1, x.numel()}, x.dtype(), linked ? x.device() : cpu_device());
  if (linked) message.transfer(Kind::recv, elements);
  else
    message.transfer(elements, [&](char* at, int n, Object type, int tag) {
      Mpi::Status status{};
      return mpi().receive(at, n, type, message.other, tag, mpi().world, &status);
    });
  copy_(x, reshape(elements, x.shape()));
}

}  // namespace mt::dist
