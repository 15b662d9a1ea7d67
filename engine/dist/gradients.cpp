// gradients.cpp -- the average of the processes' gradients, in buckets that are sent while backward goes on
//
// The processes agree at the start of a pass on the parameters that any of them uses. The gradients of these fill
// buckets, in the order in which backward usually computes them. A bucket is sent when it is full and those before it
// have been sent, so that all processes send in the same order.
#include <algorithm>

#include "engine/autograd/graph.h"
#include "engine/core/device.h"
#include "engine/dist/agreement.h"
#include "engine/dist/background.h"
#include "engine/ops/ops.h"

namespace mt::dist {
namespace {

struct Parameter {
  Shape shape;
  Dtype dtype;
  const Device* device;
  std::weak_ptr<Hook> hook;  // its leaf may be gone
  int64_t users =
      0;  // processes that use it in this pass, or with always_the_same in the first one
  /// The gradient of passes without averages.
  Tensor local() const {
    const auto held = hook.lock();
    return held ? Tensor(Ref<TensorImpl>::share(held->leaf)).grad() : Tensor();
  }
};

/// Gradients of one dtype that are sent together.
struct Bucket {
  std::vector<size_t> members;
  int64_t elements = 0;
  size_t missing = 0;   // gradients
  bool at_end = false;  // it is not sent before
  Tensor data;
  int64_t job = 0;
};

}  // namespace

struct AverageGroup : GradientGroup {
  std::vector<Parameter> parameters;
  AverageOptions options;
  const Group& group;
  std::string call;
  bool enabled = true, has_local = false, knows_used = false;
  const Device* device = &cpu_device();  // of all parameters, or the CPU

  AverageGroup(const AverageOptions& options, const Group& group)
      : options(options),
        group(group) {}
  std::unique_ptr<GroupPass> begin(std::vector<bool> reached) override;

  /// Finds how many processes use each parameter.
  void find_used(const std::vector<bool>& reached) {
    const bool unknown = !options.always_the_same || !knows_used;
    bool is_new = false;
    for (size_t i = 0; i < reached.size(); ++i) is_new |= reached[i] && !parameters[i].users;
    const bool differs = !unknown && is_new;
    agree("backward", group,
          call + (differs ? " with other parameters than in the first pass" : ""),
          gpu_for(*device, group));
    if (differs)
      fail(
          "backward: this pass uses other parameters than the first one; leave out {{static=true}}");
    if (!unknown) return;
    const std::vector<int64_t> numbers(reached.begin(), reached.end());
    const Tensor flags = tensor(numbers.data(), {int64_t(numbers.size())});
    reduce_buffer("backward", flags, Reduction::sum, group);
    for (size_t i = 0; i < parameters.size(); ++i)
      parameters[i].users = flags.data_as<const int64_t>()[i];
    knows_used = true;
  }
};

namespace {

class Pass : public GroupPass {
 public:
  Pass(AverageGroup& all, const std::vector<bool>& reached)
      : all_(all),
        gpu_(all.group.gpu),
        places_(all.parameters.size()) {
    for (int d = 0; d < kDtypes; ++d) {
      double bytes = HUGE_VAL;  // of the last bucket
      for (size_t i = all.parameters.size(); i-- > 0;) {
        const Parameter& p = all.parameters[i];
        if (p.dtype != Dtype(d) || !p.users) continue;
        if (bytes >= all.options.bucket_mb * 1e6) buckets_.emplace_back(), bytes = 0;
        Bucket& b = buckets_.back();
        places_[i] = {int(buckets_.size()) - 1, b.elements, reached[i]};
        b.members.push_back(i);
        b.elements += product(p.shape);
        b.missing += reached[i];
        // A bucket that is full earlier in one process must not be sent there before other calls.
        b.at_end |= p.users < size(all.group);
        bytes += double(product(p.shape) * item_size(wire(p.dtype)));
      }
    }
  }
  ~Pass() override {
    if (!ended_) fail_everywhere();
  }

  void ready(size_t i, const Tensor& gradient) override {
    const NoGrad off;
    add(i, gradient);
    --buckets_[places_[i].bucket].missing;
    send_full(false);
  }

  void end(TensorList& gradients) override {
    const NoGrad off;
    ended_ = true;
    send_full(true);
    wait();
    if (!all_agree("backward", all_.group, true))
      fail("backward: it has failed in another process, so no gradient was added here");
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (places_[i].bucket < 0) continue;
      const Parameter& p = all_.parameters[i];
      gradients[i] = to(to(part_of(i), p.dtype), *p.device);
      if (all_.has_local && p.local().defined())
        Tensor(Ref<TensorImpl>::share(p.hook.lock()->leaf)).set_grad({});
    }
    all_.has_local = false;
  }

 private:
  struct Place {
    int bucket = -1;  // -1: no process uses the parameter
    int64_t at = 0;
    bool reached = false;  // by this pass
  };

  /// The memory of a gradient in its bucket.
  Tensor part_of(size_t i) {
    Bucket& b = buckets_[places_[i].bucket];
    const Parameter& p = all_.parameters[i];
    if (!b.data.defined())
      b.data = empty({b.elements}, wire(p.dtype),
                     gpu_ ? static_cast<const Device&>(*gpu_) : cpu_device());
    return reshape(view_of(b.data, {product(p.shape)}, {1}, places_[i].at), p.shape);
  }
  /// Writes a gradient, which may be undefined, plus that of earlier passes into the bucket.
  void add(size_t i, const Tensor& gradient) {
    const Tensor part = part_of(i), local = all_.has_local ? all_.parameters[i].local() : Tensor();
    if (gradient.defined()) copy_(part, local.defined() ? mt::add(local, gradient) : gradient);
    else if (local.defined()) copy_(part, local);
    else copy_(part, scalar(0, part.dtype(), part.device()));
  }
  /// Sends the next buckets, as far as they are full.
  void send_full(bool at_end) {
    for (; next_ < buckets_.size(); ++next_) {
      Bucket& b = buckets_[next_];
      if (!at_end && (b.missing > 0 || b.at_end)) return;
      for (const size_t i : b.members)
        if (!places_[i].reached) add(i, {});
      const auto average = [data = b.data, &all = all_] {
        if (all.options.bfloat16_wire) average_in_bfloat16("backward", data, all.group);
        else reduce_buffer("backward", data, Reduction::mean, all.group);
      };
      if (!gpu_) b.job = start_in_background(average);
      else if (all_.options.bfloat16_wire) average();
      else start_on_gpus("backward", sum_of(b.data), all_.group);
    }
  }
  static Collective sum_of(const Tensor& data) {
    void* const all = data.data_as<void>();
    return {Collective::Kind::all_reduce, all, all, data.numel(), 0, data.dtype()};
  }
  void wait() const {
    for (const Bucket& b : buckets_) wait_for_job("backward", b.job);
    if (!gpu_ || all_.options.bfloat16_wire || buckets_.empty()) return;
    finish_on_gpus(all_.group);
    for (const Bucket& b : buckets_)
      copy_(b.data, div(b.data, scalar(size(all_.group), b.data.dtype(), b.data.device())));
  }
  /// The pass has failed here: the others, which wait for its buckets, fail too; then all may go on.
  void fail_everywhere() {
    try {
      const NoGrad off;
      for (size_t i = 0; i < places_.size(); ++i)
        if (places_[i].bucket >= 0) part_of(i);
      send_full(true);
      wait();
      all_agree("backward", all_.group, false);
    } catch (const std::exception& e) { set_lost(fmt::format("backward failed ({})", e.what())); }
  }

  AverageGroup& all_;
  const Gpu* const gpu_;       // that of the buckets; null: they are sent by MPI
  std::vector<Place> places_;  // of the parameters
  std::vector<Bucket> buckets_;
  size_t next_ = 0;  // the bucket to be sent next
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<GroupPass> AverageGroup::begin(std::vector<bool> reached) {
  if (!enabled) {
    has_local = true;
    return nullptr;
  }
  const NoGrad off;
  std::vector<bool> used = reached;
  for (size_t i = 0; has_local && i < used.size(); ++i)
    used[i] = used[i] || parameters[i].local().defined();
  find_used(used);
  return std::make_unique<Pass>(*this, reached);
}

GradientAverage::GradientAverage(const TensorList& parameters, const AverageOptions& options,
                                 const Group& group)
    : group_(std::make_shared<AverageGroup>(options, group)) {
  if (size(group) == 1) return;
  group_->call = "backward of a net with " + described(parameters);
  register_group(parameters, group_);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& p = parameters[i];
    group_->parameters.push_back({p.shape(), p.dtype(), &p.device(), group_->members[i]});
  }
  if (std::ranges::all_of(parameters,
                          [&](auto& p) { return &p.device() == &parameters[0].device(); }))
    group_->device = &parameters[0].device();
}

void GradientAverage::enable(bool on) { group_->enabled = on; }

}  // namespace mt::dist
