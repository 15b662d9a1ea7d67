// dist.cpp -- mt.dist: collective operations on tensors of several processes
#include "engine/autograd/function.h"
#include "engine/core/device.h"
#include "engine/dist/process_group.h"

#include "bindings/core/callback.h"
#include "bindings/functions/functions.h"

namespace mt::lua {

/// A tensor, or the sizes of a new one.
struct TensorOrShape {};
template <> struct Arg<TensorOrShape> {
  static constexpr Type type{kind::tensor | kind::integers};
};

/// A group in Lua; nil is the world.
struct LuaGroup {
  static constexpr char kShown[] = "a group, dist.group{0, 1}";
  const dist::Group* group;
};
template <> struct Arg<dist::Group> {
  static constexpr Type type{kind::any, true};
  static const dist::Group& get(const Args& a, int i) {
    return a.given(i) ? *Userdata<LuaGroup>::at(a, i).group : dist::world();
  }
};

namespace {

/// The averaging of a net's gradients, for dist.parallel and dist.no_sync.
struct LuaAverage : dist::GradientAverage {
  static constexpr char kShown[] = "the state of dist.parallel";
  using GradientAverage::GradientAverage;
};

/// A gather that goes on while the process computes, for dist.shard.
struct LuaGather : dist::PendingExchange {
  static constexpr char kShown[] = "a gather of dist.shard";
  using PendingExchange::PendingExchange;
};

int64_t check_tag(const char* operation, int64_t tag) {
  if (tag < 0 || tag > 10000) fail("{}: tag is {}; it must be from 0 to 10000", operation, tag);
  return tag;
}
const Entry kDist[] = {
    {"init(timeout: number > 0 = nil)",
     "Joins the processes that mpirun started; without mpirun a world of one. Returns rank and "
     "size. Every other function of mt.dist does so if it is called first. timeout: how many "
     "seconds a call waits for the other processes, at first 600; then an error names the "
     "missing ones, and mt.dist cannot be used any more. Tensors go from GPU to GPU if all processes "
     "call a function with tensors of their own GPU and have NCCL; otherwise through the CPU's memory.",
     bind<[](std::optional<double> timeout) {
       if (timeout) dist::set_timeout(*timeout);
       return std::pair(dist::rank(), dist::size());
     }>},
    {"rank(group=nil)",
     "The rank of this process, from 0; in a group its position, from 0, or -1 if it is not in it.",
     bind<dist::rank>},
    {"local_rank()",
     "Which of the processes on this machine this one is, from 0. Its GPU, which 'cuda' is: that "
     "number, modulo the number of GPUs, or MTORCH_DEVICE_INDEX if it is set.",
     bind<[] { return local_rank(); }>},
    {"size(group=nil)", "How many processes there are.", bind<dist::size>},
    {"group([ranks])",
     "Some processes, for the option group of the other functions: dist.group{0, 2}. All processes "
     "make it by the same call; those in it then call each function with it. Processes keep their "
     "ranks: root and the like are those of the world.",
     bind<[](const std::vector<int64_t>& ranks) {
       return std::make_unique<LuaGroup>(LuaGroup{&dist::make_group(ranks)});
     }>},
    {"all_reduce_([x], op='sum', group=nil)",
     "Each element of x, a tensor or a list, becomes the sum, mean, max or min of the processes', "
     "in place; all get the same bits. 16-bit floats are added in float32. Returns x.",
     bind<dist::all_reduce_, OneOrMore, dist::Reduction, dist::Group> | kReturnsSelf},
    {"reduce_scatter_(out, x, op='sum', group=nil)",
     "The elements of x, in order, are one part for each process, each as large as out, which becomes "
     "the sum, mean, max or min of the processes' parts for this one. Returns out.",
     bind<dist::reduce_scatter_> | kReturnsSelf},
    {"broadcast_([x], root=0, group=nil)",
     "x, a tensor or a list, becomes what it is in process root (from 0), in place. Returns x.",
     bind<dist::broadcast_, OneOrMore, int64_t, dist::Group> | kReturnsSelf},
    {"all_gather(x, group=nil)",
     "The tensors of all processes, of equal shapes: a list, that of rank r at r + 1.",
     bind<dist::all_gather>},
    {"all_gather_into_(out, x, group=nil)",
     "The elements of out, in order, become those of the processes' x, by rank: the inverse of "
     "reduce_scatter_. Returns out.",
     bind<dist::all_gather_into_> | kReturnsSelf},
    {"gather(x, root=0, group=nil)",
     "all_gather for process root only: the list there, nil in the others.",
     bind<[](const Tensor& x, int64_t root, const dist::Group& group) {
       TensorList list = dist::gather(x, root, group);
       return dist::rank() == root ? std::optional(std::move(list)) : std::nullopt;
     }>},
    {"scatter([list]=nil, root=0, group=nil)",
     "The tensor for this process among those of process root, of equal shapes, one for each "
     "process by rank. The list is read in process root only and may be nil in the others, which get "
     "tensors on the default device.",
     bind<[](const std::optional<TensorList>& list, int64_t root, const dist::Group& group) {
       return dist::scatter(list.value_or(TensorList()), root, group);
     }>},
    {"all_to_all([list], group=nil)",
     "Sends tensor r + 1 of the list to process r, and returns the list of what each process sent to "
     "this one. All tensors have one shape.",
     bind<dist::all_to_all>},
    {"send(x, to, tag=0)",
     "Sends x to a process, which calls recv with the same shape, dtype and tag; an error in both "
     "processes if they differ. It returns when the other has received x: two processes that send to "
     "each other must not both send first (all_to_all exchanges).",
     bind<[](const Tensor& x, int64_t to, int64_t tag) {
       dist::send(x, to, check_tag("send", tag));
     }>},
    {"recv(x, from, tag=0, dtype=nil)",
     "Receives what process `from` sends: into the tensor x, or into a new one of the shape x, "
     "recv({2, 3}, 0), of dtype or the default one, on the default device. Returns it.",
     takes<TensorOrShape, int64_t, int64_t, Dtype>([](Args& a) {
       const Tensor* const given = tensor_at(a.L, 1);
       const Dtype dtype = a.given(4) ? a.dtype(4) : default_dtype();
       const Tensor x = given ? *given : empty(a.shape(1), dtype, default_device());
       dist::recv(x, a.integer(2), check_tag("recv", a.integer(3)));
       return given ? a.self() : a.push(x);
     })},
    {"barrier(group=nil)", "Waits until all processes have called it.", bind<dist::barrier>},
};

/// released(recreate, tensors, sources, fn, ..): fn(..), whose nodes do not save the tensors; backward recreates them.
int released_body(Args& a) {
  a.function(1), a.function(4);
  const auto released = std::make_shared<ReleasedTensors>();
  released->tensors = a.tensors(2), released->sources = a.tensors(3);
  const size_t count = released->tensors.size();
  const auto callback = std::make_shared<Callback>(a.L, 1);
  callback->keep_for(released.get());
  released->recompute = [callback, count] {
    lua_State* const L =
        callback->call("backward: the function that makes released tensors is gone", 1);
    TensorList list;
    each_entry(L, lua_gettop(L), [&](int) {
      if (const Tensor* t = tensor_at(L, -1)) list.push_back(*t);
    });
    lua_pop(L, 1);
    if (list.size() != count) fail("backward: {} released tensors for {}", list.size(), count);
    return list;
  };
  const ReleaseScope scope(released);
  const int results = a.call_function(4);
  if (scope.has_written())
    fail(
        "dist.shard: the forward of a layer wrote into a parameter, and the change would be lost; leave "
        "out such a layer, or the option that does it (max_norm)");
  return results;
}

const Entry kDistParts[] = {
    {"average_gradients([parameters], bucket_mb, bfloat16_wire, is_static)",
     "Averages the gradients of each later backward pass.",
     bind<[](const TensorList& list, double bucket_mb, bool bfloat16_wire, bool is_static) {
       return std::make_unique<LuaAverage>(
           list, dist::AverageOptions{bucket_mb, bfloat16_wire, is_static});
     }>},
    {"buckets_of([gradients], bucket_mb)",
     "The bucket of each gradient, from 0 in the order in which they are sent.",
     bind<[](const TensorList& list, double bucket_mb) {
       std::vector<dist::Gradient> gradients;
       for (const Tensor& x : list) gradients.push_back({x.dtype(), x.numel()});
       return dist::buckets_of(gradients, bucket_mb);
     }>},
    {"released(recreate, [tensors], [sources], fn, ..)",
     "fn(..), whose operations do not save the tensors for backward, which calls recreate() for them.",
     released_body},
    {"start_gather([out], [parts])",
     "Begins to gather parts of all processes into flat tensors, one for each part.",
     bind<[](const TensorList& out, const TensorList& list) {
       return std::make_unique<LuaGather>(LuaGather::gather, out, list);
     }>},
    {"wait_for_gather(gather, [out]=nil)",
     "Waits until a gather is complete. Returns whether the parts, and these results, are still the same.",
     bind<[](LuaGather& gather, const std::optional<TensorList>& out) {
       return gather.wait() && (!out || gather.is_current(*out));
     }>},
    {"whole_parameters([parts], [gathered])",
     "The gathered tensors as functions of the parts; backward scatters their gradients.",
     bind<[](const TensorList& parts, const TensorList& gathered) {
       return dist::whole_parameters(parts, gathered);
     }>},
    {"reduce_alone(x, abort=false)",
     "For a check of NCCL on one GPU: all_reduce_ in a group of this process alone, which is aborted before.",
     bind<[](const Tensor& x, std::optional<bool> abort) {
       dist::reduce_alone(x, abort.value_or(false));
     }>},
    {"sent_early(state)", "The number of buffers sent before the end of their backward passes.",
     bind<[](const LuaAverage& average) { return average.sent_early(); }>},
    {"zero_gradients(enabled)",
     "Whether backward() starts from a gradient of 0. Returns the old state.",
     bind<[](bool on) { return std::exchange(thread_state.zero_gradients, on); }>},
    {"enable_average(state, enabled)", "Sets whether later backward passes are averaged.",
     bind<[](LuaAverage& state, bool enabled) { state.enable(enabled); }>},
};

}  // namespace

void add_dist(lua_State* L) { add(L, kDist); }
void add_dist_parts(lua_State* L) { add_internal(L, kDistParts); }

}  // namespace mt::lua
